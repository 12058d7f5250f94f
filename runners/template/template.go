package template

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// ChangeMode is what happens to a running task when a template of its renders again.
type ChangeMode string

// The change modes.
const (
	ChangeNoop    ChangeMode = "noop"
	ChangeRestart ChangeMode = "restart"
	ChangeSignal  ChangeMode = "signal"
	ChangeScript  ChangeMode = "script"
)

// Script is a command that is run in the task when its template has rendered to something else.
type Script struct {
	Command     string
	Args        []string
	Timeout     time.Duration // positive
	FailOnError bool          // a failure of it ends the task
	// FirstRender: it is also run when the task has started for the first time.
	FirstRender bool
}

// Template is a template block that was checked. It does not change and may be used
// concurrently.
type Template struct {
	source string // a file of the task's; empty: data is the template
	data   string
	// Destination is where the rendering is written, references in it not replaced.
	Destination string
	// Env: the rendering is variables of the task's, too.
	Env bool
	// Once: it is not rendered again while the task runs.
	Once   bool
	Change ChangeMode
	Signal string        // for ChangeSignal
	Script *Script       // for ChangeScript
	Splay  time.Duration // the change is acted on within it, at random
	// Wait is for how long nothing that it is rendered from may have changed before it is
	// rendered again. It is, at the latest, MaxWait after the first change.
	Wait, MaxWait time.Duration
	perms         fs.FileMode
	uid, gid      int // -1: the agent's
	left          string
	right         string
	missingKey    string
	denied        []string // functions
}

// New checks a template block. The error describes, in one line, what is not supported or not
// possible. The template itself is checked as far as that can be done without the task.
func New(block *nomad.Template) (*Template, error) { return NewWithin(block, Limits{}) }

// read reads and checks a block.
func (t *Template) read(block *nomad.Template) error {
	t.source, t.data, t.Destination = structs.Deref(block.SourcePath), structs.Deref(block.EmbeddedTmpl), structs.Deref(block.DestPath)
	t.Env, t.Once, t.Splay = structs.Deref(block.Envvars), structs.Deref(block.Once), structs.Deref(block.Splay)
	t.Change, t.Signal = ChangeMode(structs.Deref(block.ChangeMode)), structs.Deref(block.ChangeSignal)
	t.left, t.right, t.uid, t.gid = structs.Deref(block.LeftDelim), structs.Deref(block.RightDelim), -1, -1
	t.missingKey = "missingkey=zero"
	if t.Change == "" {
		t.Change = ChangeRestart
	}
	if structs.Deref(block.ErrMissingKey) {
		t.missingKey = "missingkey=error"
	}
	if err := t.change(block); err != nil {
		return err
	}
	if err := t.file(block); err != nil {
		return err
	}
	switch {
	case t.source == "" && t.data == "":
		return errors.New("it has neither source nor data")
	case t.source != "" && t.data != "":
		return errors.New("it has both source and data: one is the template")
	case (t.left == "") != (t.right == ""):
		return errors.New("left_delimiter and right_delimiter go together")
	}
	if err := t.wait(block.Wait); err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	if t.source == "" {
		if _, err := t.parse(t.data, nil); err != nil {
			return err
		}
	}
	return nil
}

// change is what a new rendering does.
func (t *Template) change(block *nomad.Template) error {
	switch t.Change {
	case ChangeNoop, ChangeRestart:
	case ChangeSignal:
		if t.Signal == "" {
			t.Signal = "SIGHUP"
		}
		if t.Env {
			return errors.New(`change_mode: a signal does not bring new variables to a task: use "restart" with env = true`)
		}
	case ChangeScript:
		var err error
		if t.Script, err = script(block.ChangeScript); err != nil {
			return fmt.Errorf("change_script: %w", err)
		}
	default:
		return fmt.Errorf("change_mode: %q is none of noop, restart, signal and script", t.Change)
	}
	if block.ChangeScript != nil && t.Script == nil {
		return fmt.Errorf("change_script: it is run with change_mode = \"script\" only: the change_mode is %q", t.Change)
	}
	if t.Splay < 0 {
		return fmt.Errorf("splay: it can't be negative: it is %v", t.Splay)
	}
	return nil
}

// waitFactor is how many times the shortest wait the longest one is by default, as in
// consul-template.
const waitFactor = 4

func (t *Template) wait(block *nomad.WaitConfig) error {
	if block == nil {
		return nil
	}
	t.Wait = structs.Deref(block.Min)
	if err := (Wait{t.Wait, structs.Deref(block.Max)}).Fault(); err != nil {
		return err
	}
	t.MaxWait = waitFactor * t.Wait
	if block.Max != nil {
		t.MaxWait = *block.Max
	}
	if t.Wait > t.MaxWait {
		return fmt.Errorf("min %v is greater than max %v", t.Wait, t.MaxWait)
	}
	return nil
}

// scriptTimeout is Nomad's, where a block has none. maxScriptTimeout bounds it: of changes that
// come while a script runs, the task is told only when it has ended.
const (
	scriptTimeout    = 5 * time.Second
	maxScriptTimeout = time.Hour
)

func script(block *nomad.ChangeScript) (*Script, error) {
	if block == nil || structs.Deref(block.Command) == "" {
		return nil, errors.New("it has to have a command when change_mode is \"script\"")
	}
	s := &Script{
		Command: *block.Command, Args: block.Args, Timeout: scriptTimeout,
		FailOnError: structs.Deref(block.FailOnError), FirstRender: structs.Deref(block.RunOnFirstRender),
	}
	if block.Timeout != nil {
		s.Timeout = *block.Timeout
	}
	if s.Timeout <= 0 {
		return nil, fmt.Errorf("timeout: it has to be positive: it is %v", s.Timeout)
	}
	if s.Timeout > maxScriptTimeout {
		return nil, fmt.Errorf("timeout: it can be %v at most: it is %v", maxScriptTimeout, s.Timeout)
	}
	return s, nil
}

// file is what is written.
func (t *Template) file(block *nomad.Template) error {
	if t.Destination == "" {
		return errors.New("destination: it is missing")
	}
	perms := structs.Deref(block.Perms)
	if perms == "" {
		perms = "0644"
	}
	mode, err := strconv.ParseUint(perms, 8, 12)
	if err != nil || mode > 0o777 {
		return fmt.Errorf("perms: %q is not a file mode such as 0644", perms)
	}
	t.perms = fs.FileMode(mode)
	for _, id := range []struct {
		name string
		from *int
		to   *int
	}{{"uid", block.Uid, &t.uid}, {"gid", block.Gid, &t.gid}} {
		if id.from == nil {
			continue
		}
		if *id.from < -1 {
			return fmt.Errorf("%s: it can't be negative: it is %d", id.name, *id.from)
		}
		*id.to = *id.from
	}
	return nil
}

// Name is what people know the template by.
func (t *Template) Name() string { return strings.TrimSpace(t.Destination) }
