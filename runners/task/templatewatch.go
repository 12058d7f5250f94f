package task

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/runners/template"
	"github.com/wasmnode/wasmnode/structs"
)

// templatePoll is how often what templates depend on is looked at. A file's change counts when
// the file is the same a second time.
const templatePoll = time.Second

// templateWatch renders templates again while their task runs, in a goroutine of its own.
type templateWatch struct {
	r     *Runner
	in    template.Input
	all   []*rendered
	first []*template.Script // to be run at once
	// scripts wakes, for each script, the goroutine that runs it. Its capacity is 1: one run more
	// is enough for all changes that come while it runs.
	scripts map[*template.Script]chan struct{}
	told    digests // that scripts are run for
	cancel  context.CancelFunc
	done    chan struct{}
}

// watchTemplates begins to watch. It goes on when ctx, which starts it, has ended.
func watchTemplates(ctx context.Context, r *Runner, in template.Input, all []*rendered, first []*template.Script) *templateWatch {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &templateWatch{r: r, in: in, all: all, first: first, scripts: map[*template.Script]chan struct{}{}, cancel: cancel, done: make(chan struct{})}
	for _, t := range all {
		if t.Script != nil {
			w.scripts[t.Script] = make(chan struct{}, 1)
		}
	}
	for _, s := range first {
		if w.scripts[s] == nil { // of a template that is rendered once
			w.scripts[s] = make(chan struct{}, 1)
		}
	}
	go func() {
		defer close(w.done)
		w.run(ctx)
	}()
	return w
}

// end ends the watch and waits for that: at most for a file to be written, and scripts to be killed.
func (w *templateWatch) end() {
	w.cancel()
	<-w.done
}

func (w *templateWatch) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for s, wake := range w.scripts {
		running.Go(func() { w.runWhenWoken(ctx, s, wake) })
	}
	w.wakeScripts(w.first)
	tick := time.NewTicker(templatePoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.apply(ctx, w.render(ctx))
	}
}

// render gives the templates that render to something else now.
func (w *templateWatch) render(ctx context.Context) (changed []*rendered) {
	for _, t := range w.all {
		is, err := t.renderChanged(ctx, w.in)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			w.r.emit(templateEvent(t, err))
		}
		if is {
			changed = append(changed, t)
		}
	}
	return changed
}

// apply does, for all changes at once, what their templates ask for. A restart is enough
// for those that ask for a signal or a script.
func (w *templateWatch) apply(ctx context.Context, changed []*rendered) {
	restart, splay := false, time.Duration(0)
	var signals []string
	var scripts []*template.Script
	for _, t := range changed {
		if t.Change == template.ChangeNoop {
			continue
		}
		splay = max(splay, t.Splay)
		switch {
		case t.Change == template.ChangeRestart:
			restart = true
		case t.Change == template.ChangeScript:
			scripts = append(scripts, t.Script)
		case !slices.Contains(signals, t.Signal):
			signals = append(signals, t.Signal)
		}
	}
	if !restart && len(signals)+len(scripts) == 0 || splay > 0 && !sleep(ctx, rand.N(splay)) {
		return
	}
	if restart {
		// A task that does not run any more, or not yet, starts with the new files.
		_ = w.r.Restart(RestartRequest{Reason: "Template with change_mode restart re-rendered"})
		return
	}
	w.told.set(changed)
	w.wakeScripts(scripts)
	if w.signal(ctx, signals) {
		for _, t := range changed {
			if t.Change == template.ChangeSignal {
				w.r.note(ctx, hookNote{TemplatesHook, digestKey(t.index), t.digest})
			}
		}
	}
}

// digests are what templates were rendered to last that have scripts.
type digests struct {
	mu sync.Mutex
	of map[*template.Script]hookNote
}

func (d *digests) set(changed []*rendered) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil {
		d.of = map[*template.Script]hookNote{}
	}
	for _, t := range changed {
		if t.Change == template.ChangeScript {
			d.of[t.Script] = hookNote{TemplatesHook, digestKey(t.index), t.digest}
		}
	}
}

// get is what there is to be left when a script has been run; false: it is run for nothing new.
func (d *digests) get(s *template.Script) (hookNote, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, is := d.of[s]
	return n, is
}

// signal sends signals, and reports whether the task has them all. One that cannot be signalled
// would keep its old files, and so is ended.
func (w *templateWatch) signal(ctx context.Context, signals []string) (all bool) {
	all = true
	for _, s := range signals {
		err := w.r.Signal(ctx, s, "Template re-rendered")
		if err == nil {
			continue
		}
		all = false
		if ctx.Err() != nil || errors.Is(err, ErrNotRunning) {
			continue
		}
		w.r.Kill(structs.NewTaskEvent(structs.EventKilling).Fails().
			WithKillReason(fmt.Sprintf("Template failed to send signals [%s]: %v", strings.Join(signals, " "), err)))
		return false
	}
	return all
}
