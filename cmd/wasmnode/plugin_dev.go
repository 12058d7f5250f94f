package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/internal/pluginlock"
)

type pluginDevCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginDevCommand) Synopsis() string {
	return "Build a plugin on each change, and run its job on a node of its own"
}

// Help implements [subcommand].
func (*pluginDevCommand) Help() string {
	return `Usage: wasmnode plugin dev [options] DIR

  Works on a plugin's folder, as plugin new makes it, until it is interrupted. It runs a node
  of its own with the plugins in plugins/, under the configuration in agent.hcl: that is what
  they are granted. Whenever a file changes, it has make build the plugin, waits until the node
  has it, and runs the job again, from its beginning. What the job's tasks write, their events
  and the faults of the plugin are shown as they come.

  What the plugin is refused, since it is not granted, is shown with the grant that it lacks.
  On a terminal you are asked whether it is added to agent.hcl: y, N, or always, which is for
  all that come after it, too. A grant that leaves something to be completed is yours to write.

  The node listens on a free port of this machine, which is shown for other commands, and is
  gone in the end with all that ran on it. Compiled code is kept for the next time. With
  -address and -plugin-dir a node that runs is used instead: the plugin is copied to its
  directory, what it is granted is that node's affair, and in the end the job is stopped.

Options:

  -address=URL      The API of a node that runs on this machine.
  -plugin-dir=DIR   That node's plugin directory.
  -job=FILE         The job; job.nomad.hcl of the folder.
  -log-level=LEVEL  What is shown of the node's log, which has what the plugin logs: trace,
                    debug, info, warn or error; error.
  -json             Print a JSON object a line, with Time, From and Text, and ask nothing.`
}

// Run implements [subcommand].
func (c *pluginDevCommand) Run(args []string) int {
	f := c.flags("plugin dev")
	job := f.String("job", "", "")
	level := f.String("log-level", "error", "")
	dir := f.String("plugin-dir", "", "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	address := ""
	f.Visit(func(given *flag.Flag) {
		if given.Name == "address" {
			address = given.Value.String()
		}
	})
	if (address == "") != (*dir == "") {
		c.misuse(c.Help(), "-address and -plugin-dir are the two parts of a node that runs: both of them, or none")
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d := &dev{
		dir: f.Arg(0), pluginDir: *dir, jobFile: *job, level: *level, out: &lines{to: c.ui.out, json: *f.json}, reload: make(chan os.Signal, 1),
		terminal: isTerminal(os.Stdout) && !*f.json,
	}
	d.grants = d.newGrantAsker()
	d.meta, d.shown = meta{ui: ui{out: d.out, err: d.out}}, f
	work := d.onOwnNode
	if address != "" {
		work = d.onRunningNode
	}
	if err := work(ctx); err != nil {
		return c.fail(f, err)
	}
	return 0
}

// dev is the work on one plugin's folder.
type dev struct {
	meta
	shown *flags // how IDs and times are shown
	dir   string
	// pluginDir is that of a node that runs; empty: the node is of this command's own.
	pluginDir string
	jobFile   string // empty: there is none
	level     string
	out       *lines
	terminal  bool // out is one
	grants    *grantAsker
	reload    chan os.Signal // has the node read its configuration again
	client    *nomad.Client
	jobID     string // of the job that was run last

	made   made       // what was run last
	follow *following // nil: nothing is followed
}

// made is what a run of the job depends on.
type made struct{ plugin, job, agent [sha256.Size]byte }

// begin looks at the folder, and returns what tells of its changes until ctx is done.
func (d *dev) begin(ctx context.Context) (<-chan struct{}, error) {
	if !exists(filepath.Join(d.dir, "Makefile")) {
		return nil, fmt.Errorf("%s has no Makefile: wasmnode plugin new makes a folder with one", d.dir)
	}
	if file := filepath.Join(d.dir, "job.nomad.hcl"); d.jobFile == "" && exists(file) {
		d.jobFile = file
	}
	return watchFolder(ctx, d.dir, d.jobFile)
}

// onOwnNode works on the folder until ctx is done, or its node ends.
func (d *dev) onOwnNode(ctx context.Context) error {
	changes, err := d.begin(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	address, ended := make(chan string, 1), make(chan struct{})
	var failed error // of the node, once it has ended
	go func() {
		defer close(ended)
		failed = d.runNode(ctx, func(a string) { address <- a })
	}()
	defer func() {
		stop()
		<-ended
	}()
	select {
	case a := <-address:
		d.out.say("node", "its API is at http://"+a)
		if d.client, err = nomad.NewClient(&nomad.Config{Address: "http://" + a}); err != nil {
			return err
		}
	case <-ended:
		return failed
	}
	d.work(ctx, changes, ended)
	select {
	case <-ended:
		return failed
	default:
		return nil
	}
}

// onRunningNode works on the folder until ctx is done, and stops its job then.
func (d *dev) onRunningNode(ctx context.Context) error {
	changes, err := d.begin(ctx)
	if err != nil {
		return err
	}
	if d.client, err = d.meta.client(d.shown); err != nil {
		return err
	}
	if _, err := d.client.Raw().Query("/v1/agent/plugins", new(json.RawMessage), nil); err != nil {
		return err // rather now than after the build
	}
	d.work(ctx, changes, nil)
	if d.jobID == "" {
		return nil
	}
	return d.purge(d.jobID, nil)
}

// purge stops a job, if there is one, and has it forgotten.
func (d *dev) purge(jobID string, w *nomad.WriteOptions) error {
	_, _, err := d.client.Jobs().Deregister(jobID, true, w)
	if refused := (nomad.UnexpectedResponseError{}); errors.As(err, &refused) && refused.StatusCode() == http.StatusNotFound {
		return nil
	}
	return err
}

// work does what is to be done at first and after each change, until ctx is done or the node has
// ended.
func (d *dev) work(ctx context.Context, changes, ended <-chan struct{}) {
	defer d.unfollow()
	for {
		d.turn(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ended:
			return
		case <-changes:
		}
	}
}

// runNode runs the node. Its directory is gone afterwards, but not its compiled code.
func (d *dev) runNode(ctx context.Context, answers func(address string)) error {
	data, err := os.MkdirTemp("", "wasmnode-dev-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	plugins := filepath.Join(d.dir, "plugins")
	if err := os.MkdirAll(plugins, 0o755); err != nil { //nolint:gosec // a folder of sources has others
		return err
	}
	o := agent.Options{
		Dev: true, DataDir: data, PluginDir: plugins, HTTPAddr: "127.0.0.1:0", LogLevel: d.level, LogOutput: d.out,
		Reload: d.reload, Answers: answers, CodeDir: codeDir(),
	}
	if file := filepath.Join(d.dir, "agent.hcl"); exists(file) {
		o.ConfigPaths = []string{file}
	}
	return agent.Run(ctx, o)
}

// turn builds the plugin, and runs the job if that or the job is another one than before.
func (d *dev) turn(ctx context.Context) {
	began := time.Now()
	t := tested{Directory: d.dir}
	if err := d.build(&t); err != nil { //nolint:contextcheck // what it asks of compilers is bounded
		if ctx.Err() == nil {
			d.out.say("build", err.Error())
		}
		return
	}
	now, err := d.look(t.File)
	if err != nil {
		d.out.say("build", err.Error())
		return
	}
	if now == d.made {
		return
	}
	if now.plugin != d.made.plugin {
		d.out.say("build", fmt.Sprintf("%s, in %s", t.File, brief(time.Since(began))))
	}
	if now.agent != d.made.agent && d.made.agent != [sha256.Size]byte{} {
		select {
		case d.reload <- syscall.SIGHUP:
		default: // it is to read it again already
		}
	}
	file := t.File
	if d.pluginDir != "" {
		file = filepath.Join(d.pluginDir, filepath.Base(t.File))
		if err := handOver(t.File, d.pluginDir); err != nil {
			d.out.say("build", err.Error())
			return
		}
	}
	d.made = now
	d.unfollow()
	d.follow = startFollowing(ctx, d, file, hex.EncodeToString(now.plugin[:]))
}

// build makes the plugin's file. What make says is shown as it comes, or a line at a time to programs.
func (d *dev) build(t *tested) error {
	if !d.out.json {
		return t.build(d.out)
	}
	said := &labelled{to: d.out, label: "make"}
	defer said.end()
	return t.build(said)
}

// look reads what a run depends on. A file that is not there is an empty one.
func (d *dev) look(plugin string) (m made, err error) {
	for file, sum := range map[string]*[sha256.Size]byte{plugin: &m.plugin, d.jobFile: &m.job, filepath.Join(d.dir, "agent.hcl"): &m.agent} {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return m, err
		}
		*sum = sha256.Sum256(text)
	}
	return m, nil
}

// handOver puts a file into the plugin directory of a node that runs.
func handOver(file, dir string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return pluginlock.WriteFile(dir, filepath.Base(file), content)
}

// unfollow ends what is followed.
func (d *dev) unfollow() {
	if d.follow != nil {
		d.follow.stop()
		d.follow = nil
	}
}
