package task

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

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
	limits    template.Limits
	rendered  []*rendered // before the last start; nil: an earlier agent did
	first     bool        // the task has not been started yet
	watch     *templateWatch
}

func (*templatesHook) Name() string { return TemplatesHook }

// rendered is a template with what came of it.
type rendered struct {
	*template.Template
	index    int               // of the task's
	digest   string            // of that; after an agent's restart, of what the task knows of
	env      map[string]string // the variables in it
	secret   bool              // their values are secrets
	made     bool              // it was rendered, now or before
	files    map[string]string // what it depends on, with the stamps then
	lookups  map[string]string // likewise
	changing changing
	failure  string // that was reported
}

// changing is what of that a template depends on has changed, as long as it is not rendered again.
type changing struct {
	files, lookups map[string]string // the stamps that there were last
	first, last    time.Time         // when they were seen to change
}

// see takes stamps that are not those of the last rendering, and reports whether there is to be
// another: when they have been the same for the shortest wait, or are not those of the first
// change for the longest. A file that may be being written has to be the same twice.
func (c *changing) see(t *template.Template, files, lookups map[string]string, inFiles bool, now time.Time) bool {
	same := maps.Equal(files, c.files) && maps.Equal(lookups, c.lookups)
	if c.first.IsZero() {
		c.first = now
	}
	if !same {
		c.files, c.lookups, c.last = files, lookups, now
	}
	if t.MaxWait == 0 {
		return same || !inFiles
	}
	return now.Sub(c.last) >= t.Wait && (same || !inFiles) || now.Sub(c.first) >= t.MaxWait
}

// input is what templates are rendered from.
func (h *templatesHook) input(dir *allocdir.TaskDir, env *taskenv.Env, alloc *structs.Allocation, task string) template.Input {
	return template.Input{
		Dir: dir, Env: env, Services: h.services, Variables: h.variables, Namespace: alloc.Namespace,
		Task: structs.TaskIdentity{AllocID: alloc.ID, Task: task},
	}
}

func (h *templatesHook) Prestart(ctx context.Context, req *PrestartRequest) (*PrestartResult, error) {
	all, err := h.checked(req.Task)
	if err != nil {
		return nil, err
	}
	in := h.input(req.Dir, req.Env, req.Alloc, req.Task.Name)
	result := &PrestartResult{Env: map[string]string{}, Data: map[string]string{}}
	keep(all, h.rendered)
	for waited := true; waited; { // what was rendered before a wait may have changed in it
		waited = false
		for _, t := range all {
			if t.isCurrent(ctx, in) {
				continue
			}
			again, err := t.await(ctx, in, req.Emit)
			if err != nil {
				return nil, templateFailed(t, err)
			}
			waited = waited || again
		}
	}
	for i, t := range all {
		maps.Copy(result.Env, t.env)
		for key, stamps := range t.stamps(i) {
			data, err := json.Marshal(*stamps)
			if err != nil {
				return nil, err
			}
			result.Data[key] = string(data)
		}
		result.Data[digestKey(i)] = t.digest
		if t.secret && len(t.env) > 0 {
			names, err := json.Marshal(slices.Sorted(maps.Keys(t.env)))
			if err != nil {
				return nil, err
			}
			result.Data[secretKey(i)] = string(names)
		}
	}
	h.rendered = all
	h.first = h.first || len(req.Previous) == 0
	return result, nil
}

// keep gives templates what they were rendered to before the task's last start: where a variable
// has gone meanwhile, the task goes on with that.
func keep(all, before []*rendered) {
	for i, t := range all {
		if i < len(before) && before[i].Destination == t.Destination {
			t.digest, t.env, t.secret, t.made = before[i].digest, before[i].env, before[i].secret, before[i].made
		}
	}
}

// isCurrent reports whether the template has been rendered and what it looked up is the same.
func (t *rendered) isCurrent(ctx context.Context, in template.Input) bool {
	return t.files != nil && maps.Equal(lookedUp(ctx, in, t.lookups), t.lookups)
}

// await renders a template and writes it when there are the variables that it cannot do without.
// It tells of those that it waits for, again when they are others, and reports whether it did wait.
func (t *rendered) await(ctx context.Context, in template.Input, emit func(*structs.TaskEvent)) (waited bool, err error) {
	told := ""
	for {
		out, err := t.Render(ctx, in)
		var missing *template.MissingError
		if !errors.As(err, &missing) {
			if err == nil {
				err = t.Write(in, out.Content)
			}
			t.digest, t.env, t.secret, t.made = digestOf(out.Content), out.Env, out.Secret, err == nil
			t.files, t.lookups = out.Files, out.Lookups
			return waited, err
		}
		if t.made {
			emit(templateEvent(t, err))
			t.files, t.lookups = out.Files, out.Lookups
			return waited, nil
		}
		if err.Error() != told {
			told = err.Error()
			emit(structs.NewTaskEvent(structs.EventTemplate).WithMessage(told))
		}
		for maps.Equal(lookedUp(ctx, in, out.Lookups), out.Lookups) && maps.Equal(stampsOf(in, out.Files), out.Files) {
			if !sleep(ctx, templatePoll) {
				return true, ctx.Err()
			}
		}
		waited = true
	}
}

// stampsOf gives the stamps that files have now.
func stampsOf(in template.Input, files map[string]string) map[string]string {
	now := make(map[string]string, len(files))
	for name := range files {
		now[name] = template.Stamp(in.Dir, name)
	}
	return now
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
	all, err := h.checked(r.Task())
	if err != nil {
		return err
	}
	left := r.local.Hooks[TemplatesHook]
	for i, t := range all {
		content := t.Current(in)
		t.digest, t.made = digestOf(content), true
		t.env, _ = t.Variables(content) // the task may have made something else of its file
		if left != nil {
			for key, stamps := range t.stamps(i) {
				_ = json.Unmarshal([]byte(left.Data[key]), stamps)
			}
			if told := left.Data[digestKey(i)]; told != "" && t.Change != template.ChangeNoop {
				t.digest = told // of what was rendered since then, the task has not been told
			}
			t.secret = left.Data[secretKey(i)] != ""
		}
		t.lookups = unknown(t.lookups) // it may be again as it was before the start, and was not in between
	}
	h.rendered = all
	return nil
}

// stamps are those that the template of a number leaves, by the names that they are left under.
func (t *rendered) stamps(i int) map[string]*map[string]string {
	return map[string]*map[string]string{strconv.Itoa(i): &t.files, strconv.Itoa(i) + " lookups": &t.lookups}
}

// digestKey is the name that the digest is left under of what the template of a number was
// rendered to when the task started, or when it was told last of another rendering.
func digestKey(i int) string { return strconv.Itoa(i) + " digest" }

// secretKey is the name that the names of variables are left under whose values are secrets, of the
// template of a number.
func secretKey(i int) string { return strconv.Itoa(i) + secretKeyEnd }

const secretKeyEnd = " secret"

// tellSecrets tells a run's driver which variables its templates have made of the node's, before it is
// asked anything about the run. It is called by the goroutine that runs Run: a handover has nothing to
// tell, since what one version was told, all know until the task is destroyed.
func (r *Runner) tellSecrets(run *invocation) {
	left := r.local.Hooks[TemplatesHook]
	if left == nil {
		return
	}
	var all []string
	for key, text := range left.Data {
		var names []string
		if strings.HasSuffix(key, secretKeyEnd) && json.Unmarshal([]byte(text), &names) == nil {
			all = append(all, names...)
		}
	}
	run.driver.KeepSecrets(run.config.GetId(), all)
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
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
func (h *templatesHook) checked(task *nomad.Task) ([]*rendered, error) {
	out := make([]*rendered, 0, len(task.Templates))
	for i, block := range task.Templates {
		t, err := template.NewWithin(block, h.limits)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", structs.Deref(block.DestPath), err)
		}
		if t.Change == template.ChangeSignal {
			if t.Signal, err = ParseSignal(t.Signal); err != nil {
				return nil, fmt.Errorf("%q: change_signal: %w", t.Name(), err)
			}
		}
		out = append(out, &rendered{Template: t, index: i})
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
	} else if h.first {
		first = firstScripts(h.rendered)
	}
	h.first = false
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

// renderChanged renders a template again if what it depends on has changed, and does not go on
// changing. It reports whether the result is another one, which is written. What fails is
// watched as before, and tried again on a change; what could not be looked up or written, once a
// second. An error is returned once as long as it stays the same.
func (t *rendered) renderChanged(ctx context.Context, in template.Input) (changed bool, err error) {
	files, lookups := stampsOf(in, t.files), lookedUp(ctx, in, t.lookups)
	inFiles, inLookups := !maps.Equal(files, t.files), !maps.Equal(lookups, t.lookups)
	if !inFiles && !inLookups {
		t.changing = changing{}
		return false, nil
	}
	if !t.changing.see(t.Template, files, lookups, inFiles && !inLookups, time.Now()) {
		return false, nil
	}
	out, err := t.Render(ctx, in)
	if err != nil {
		out.Files, out.Lookups = joined(files, out.Files), joined(lookups, out.Lookups)
	}
	t.files, t.lookups, t.changing = out.Files, out.Lookups, changing{}
	if changed = err == nil && digestOf(out.Content) != t.digest; changed {
		if err = t.Write(in, out.Content); err == nil {
			t.digest, t.env, t.secret = digestOf(out.Content), out.Env, out.Secret
		} else {
			t.files, t.lookups = unknown(t.files), unknown(t.lookups)
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

// joined has the stamps of both, and of the second where both have one.
func joined(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// unknown has what stamps are of, and no stamps.
func unknown(stamps map[string]string) map[string]string {
	out := make(map[string]string, len(stamps))
	for key := range stamps {
		out[key] = ""
	}
	return out
}

// templateEvent reports a template that could not be rendered again.
func templateEvent(t *rendered, err error) *structs.TaskEvent {
	return structs.NewTaskEvent(structs.EventHookFailed).
		WithMessage(fmt.Sprintf("%s: %q: %v; the task keeps what was rendered before", TemplatesHook, t.Name(), err))
}
