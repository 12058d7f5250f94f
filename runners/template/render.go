package template

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/hashicorp/go-envparse"

	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/runners/taskenv"
	"github.com/wasmnode/wasmnode/structs"
)

// The bounds of one rendering.
const (
	// maxSource bounds a template and each file that it reads.
	maxSource = 1 << 20
	// maxOutput bounds what is written.
	maxOutput = 8 << 20
	// maxMade bounds all texts and lists that functions make on the way, in bytes.
	maxMade = 8 * maxOutput
	// maxLookups bounds the different services and variables that are looked up. Who needs more
	// has all services at once, as one.
	maxLookups = 256
	// maxNamespace bounds a namespace's name, as in Nomad.
	maxNamespace = 128
	// maxTime bounds the time it takes.
	maxTime = 10 * time.Second
	// maxError bounds what is reported of an error: it may quote the template.
	maxError = 500
)

// ErrFile is what an error is that a file causes, which may appear or be fixed.
var ErrFile = errors.New("file")

// Input is what a template is rendered from.
type Input struct {
	Dir *allocdir.TaskDir
	Env *taskenv.Env
	// Services has the services that templates look up; nil: none can.
	Services Services
	// Variables has the variables that templates read; nil: none can.
	Variables Variables
	// Task is who reads them.
	Task structs.TaskIdentity
	// Namespace is the task's, where a template names none.
	Namespace string
}

// Output is a rendering.
type Output struct {
	Content []byte
	// Env is the variables in it, if the template is for those.
	Env map[string]string
	// Secret is that variables of the node's, or files of the task's in secrets/, were read for it:
	// what it has may be theirs.
	Secret bool
	// Files are those that it depends on, as the template names them, with the
	// [Stamp] that each had before it was read.
	Files map[string]string
	// Lookups are the services and variables that it depends on, as [LookupStamp] takes them,
	// with the stamp that each had then.
	Lookups map[string]string
}

// Render renders the template. It returns soon after ctx ends, and within 10 s whatever
// the template does. The output of a failed rendering has what it depends on.
func (t *Template) Render(ctx context.Context, in Input) (*Output, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxTime, fmt.Errorf("not rendered within %v", maxTime))
	defer cancel()
	r := &rendering{ctx: ctx, in: in, left: maxMade, files: map[string]string{}, lookups: map[string]string{}, secrets: map[string]bool{}, scratch: map[string]any{}}
	out, err := t.render(r)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if out == nil {
		out = &Output{}
	}
	out.Files, out.Lookups, out.Secret = r.files, r.lookups, r.secret || len(r.secrets) > 0
	return out, err
}

func (t *Template) render(r *rendering) (*Output, error) {
	text := t.data
	if t.source != "" {
		var err error
		if text, err = r.read(r.in.Env.Replace(t.source)); err != nil {
			return nil, fmt.Errorf("source: %w", err)
		}
	}
	parsed, err := t.parse(text, r)
	if err != nil {
		return nil, err
	}
	content := &limited{left: maxOutput}
	err = parsed.Execute(content, nil)
	switch {
	case len(r.missing) > 0: // what it made without them, an error too, means nothing
		return nil, &MissingError{r.missing}
	case err != nil:
		return nil, readable(r.withoutSecrets(err))
	}
	out := &Output{Content: content.Bytes()}
	if out.Env, err = t.Variables(out.Content); err != nil {
		return nil, fmt.Errorf("env: what it renders is not variables: %w", r.withoutSecrets(err))
	}
	return out, nil
}

// Variables are those that a rendering has, if the template is for variables.
func (t *Template) Variables(content []byte) (map[string]string, error) {
	if !t.Env {
		return nil, nil
	}
	return envparse.Parse(bytes.NewReader(content))
}

// parse parses a template. Without a rendering it is only looked at.
func (t *Template) parse(text string, r *rendering) (*template.Template, error) {
	if len(text) > maxSource {
		return nil, fmt.Errorf("the template has %d bytes, more than %d", len(text), maxSource)
	}
	if r == nil {
		r = &rendering{}
	}
	parsed, err := template.New(t.Name()).Option(t.missingKey).Delims(t.left, t.right).Funcs(r.functions(text)).Parse(text)
	if err != nil {
		return nil, readable(err)
	}
	return parsed, restrict(parsed, t.denied)
}

// readable makes one bounded line of an error of text/template's.
func readable(err error) error {
	said := strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "template: ")
	if len(said) > maxError { // it begins with where and ends with what
		said = strings.ToValidUTF8(said[:maxError/2]+" … "+said[len(said)-maxError/2:], "")
	}
	if errors.Is(err, ErrFile) {
		return &fileError{said}
	}
	return errors.New(said)
}

// fileError is ErrFile with another text.
type fileError struct{ text string }

func (e *fileError) Error() string        { return e.text }
func (e *fileError) Is(target error) bool { return target == ErrFile }

// MissingError is that a template waits for variables that there are not.
type MissingError struct {
	// What are they, by the names that consul-template gives them.
	What []string
}

// missingShown is how many an error names, as Nomad's event does.
const missingShown = 3

// Error is Nomad's text.
func (e *MissingError) Error() string {
	what := slices.Sorted(slices.Values(e.What))
	if more := len(what) - missingShown; more > 0 {
		what = append(what[:missingShown], fmt.Sprintf("and %d more", more))
	}
	return "Missing: " + strings.Join(what, ", ")
}

// Is reports what may appear later to be like a file.
func (e *MissingError) Is(target error) bool { return target == ErrFile }

// limited is a buffer of a bounded size.
type limited struct {
	bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, fmt.Errorf("it renders more than %d bytes", maxOutput)
	}
	return l.Buffer.Write(p)
}
