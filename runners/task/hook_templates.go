package task

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/runners/taskenv"
	"github.com/wasmnode/wasmnode/runners/template"
	"github.com/wasmnode/wasmnode/structs"
)

// TemplatesHook is the name of the hook whose variables win over all others, and are
// seen by no template.
const TemplatesHook = "template"

// templatesHook renders a task's templates before each start, and again while it runs
// when a file, a service or a variable that one depends on changes.
type templatesHook struct {
	services  template.Services
	variables template.Variables
	rendered  []*rendered // before the last start; nil: an earlier agent did
	watch     *templateWatch
}

func (*templatesHook) Name() string { return TemplatesHook }

// rendered is a template with what came of it.
type rendered struct {
	*template.Template
	content  []byte
	files    map[string]string // what it depends on, with the stamps then
	lookups  map[string]string // likewise
	changing map[string]string // the stamps of files that changed since, last time
	failure  string            // that was reported
}

// input is what templates are rendered from.
func (h *templatesHook) input(dir *allocdir.TaskDir, env *taskenv.Env, alloc *structs.Allocation, task string) template.Input {
	return template.Input{
		Dir: dir, Env: env, Services: h.services, Variables: h.variables, Namespace: alloc.Namespace,
		Task: structs.TaskIdentity{AllocID: alloc.ID, Task: task},
	}
}

func (h *templatesHook) Prestart(ctx context.Context, req *PrestartRequest) (*PrestartResult, error) {
	all, err := checked(req.Task)
	if err != nil {
		return nil, err
	}
	in := h.input(req.Dir, req.Env, req.Alloc, req.Task.Name)
	result := &PrestartResult{Env: map[string]string{}, Data: map[string]string{}}
	for i, t := range all {
		out, err := t.await(ctx, in, req.Emit)
		if err == nil {
			err = t.Write(in, out.Content)
		}
		if err != nil {
			return nil, templateFailed(t, err)
		}
		t.content, t.files, t.lookups = out.Content, out.Files, out.Lookups
		maps.Copy(result.Env, out.Env)
		for key, stamps := range t.stamps(i) {
			data, err := json.Marshal(*stamps)
			if err != nil {
				return nil, err
			}
			result.Data[key] = string(data)
		}
	}
	h.rendered = all
	return result, nil
}

// await renders a template when there are the variables that it cannot do without. It tells of
// those that it waits for, again when they are others.
func (t *rendered) await(ctx context.Context, in template.Input, emit func(*structs.TaskEvent)) (*template.Output, error) {
	told := ""
	for {
		out, err := t.Render(ctx, in)
		var missing *template.MissingError
		if !errors.As(err, &missing) {
			return out, err
		}
		if text := missingText(missing.What); text != told {
			emit(structs.NewTaskEvent(structs.EventTemplate).WithMessage(text))
			told = text
		}
		for maps.Equal(lookedUp(ctx, in, out.Lookups), out.Lookups) {
			if !sleep(ctx, templatePoll) {
				return nil, ctx.Err()
			}
		}
	}
}

// missingShown is how many variables that are waited for an event names, as in Nomad.
const missingShown = 3

func missingText(what []string) string {
	what = slices.Sorted(slices.Values(what))
	if more := len(what) - missingShown; more > 0 {
		what = append(what[:missingShown], fmt.Sprintf("and %d more", more))
	}
	return "Missing: " + strings.Join(what, ", ")
}

// lookedUp gives the stamps that lookups have now.
func lookedUp(ctx context.Context, in template.Input, before map[string]string) map[string]string {
	now := make(map[string]string, len(before))
	for key, stamp := range before {
		now[key] = in.LookupStamp(ctx, key, stamp)
	}
	return now
}

// resume is what an earlier agent rendered: on disk, with the stamps that it left. What
// is not known is not watched.
func (h *templatesHook) resume(r *Runner, in template.Input) error {
	all, err := checked(r.Task())
	if err != nil {
		return err
	}
	left := r.local.Hooks[TemplatesHook]
	for i, t := range all {
		t.content = t.Current(in)
		if left != nil {
			for key, stamps := range t.stamps(i) {
				_ = json.Unmarshal([]byte(left.Data[key]), stamps)
			}
		}
		for key := range t.lookups {
			t.lookups[key] = "" // it may be again as it was before the start, and was not in between
		}
	}
	h.rendered = all
	return nil
}

// stamps are those that the template of a number leaves, by the names that they are left under.
func (t *rendered) stamps(i int) map[string]*map[string]string {
	return map[string]*map[string]string{strconv.Itoa(i): &t.files, strconv.Itoa(i) + " lookups": &t.lookups}
}

// templateFailed is the error of a template. What a file caused may be tried again.
func templateFailed(t *rendered, err error) error {
	named := fmt.Errorf("%q: %w", t.Name(), err)
	if errors.Is(err, template.ErrFile) {
		return fmt.Errorf("%w", abi.NewRecoverableError(abi.Unavailable, named.Error()))
	}
	return named
}

// checked are the task's templates.
func checked(task *nomad.Task) ([]*rendered, error) {
	out := make([]*rendered, 0, len(task.Templates))
	for _, block := range task.Templates {
		t, err := template.New(block)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", structs.Deref(block.DestPath), err)
		}
		if t.Change == template.ChangeSignal {
			if t.Signal, err = ParseSignal(t.Signal); err != nil {
				return nil, fmt.Errorf("%q: change_signal: %w", t.Name(), err)
			}
		}
		out = append(out, &rendered{Template: t})
	}
	return out, nil
}

// Poststart begins to watch.
func (h *templatesHook) Poststart(ctx context.Context, req *PoststartRequest) error {
	alloc, _ := req.Runner.current()
	in := h.input(req.Runner.cfg.Dir, req.Runner.renderEnv(), alloc, req.Runner.Name())
	var first []*template.Script
	if h.rendered == nil {
		if err := h.resume(req.Runner, in); err != nil {
			return err
		}
	} else {
		first = firstScripts(h.rendered)
	}
	var watched []*rendered
	for _, t := range h.rendered {
		if !t.Once && len(t.files)+len(t.lookups) > 0 {
			watched = append(watched, t)
		}
	}
	if len(watched)+len(first) > 0 {
		h.watch = watchTemplates(ctx, req.Runner, in, watched, first)
	}
	return nil
}

func (h *templatesHook) PreKill(context.Context) error { h.unwatch(); return nil }
func (h *templatesHook) Exited(context.Context) error  { h.unwatch(); return nil }
func (h *templatesHook) Shutdown()                     { h.unwatch() }

func (h *templatesHook) unwatch() {
	if h.watch != nil {
		h.watch.end()
		h.watch = nil
	}
}

// renderChanged renders a template again if what it looks up has changed, or a file
// that does not go on changing. It reports whether the result is another one, which is written. An error is
// returned once as long as it stays the same.
func (t *rendered) renderChanged(ctx context.Context, in template.Input) (changed bool, err error) {
	now := make(map[string]string, len(t.files))
	for name := range t.files {
		now[name] = template.Stamp(in.Dir, name)
	}
	switch sameFiles := maps.Equal(now, t.files); {
	case sameFiles && maps.Equal(lookedUp(ctx, in, t.lookups), t.lookups):
		return false, nil
	case !sameFiles && !maps.Equal(now, t.changing):
		t.changing = now // it may be being written
		return false, nil
	}
	out, err := t.Render(ctx, in)
	t.files, t.lookups, t.changing = out.Files, out.Lookups, nil
	if changed = err == nil && !bytes.Equal(out.Content, t.content); changed {
		if err = t.Write(in, out.Content); err == nil {
			t.content = out.Content
		}
	}
	if err == nil {
		t.failure = ""
		return changed, nil
	}
	if t.failure == err.Error() {
		return false, nil
	}
	t.failure = err.Error()
	return false, err
}

// templateEvent reports a template that could not be rendered again.
func templateEvent(t *rendered, err error) *structs.TaskEvent {
	return structs.NewTaskEvent(structs.EventHookFailed).
		WithMessage(fmt.Sprintf("%s: %q: %v; the task keeps what was rendered before", TemplatesHook, t.Name(), err))
}
