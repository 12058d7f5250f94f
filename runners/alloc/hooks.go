package alloc

import (
	"context"
	"errors"
	"fmt"

	"github.com/wasmnode/wasmnode/structs"
)

// hook is a step of an allocation's life cycle. Each kind is an interface of one method.
type hook interface{ name() string }

// prerunHook prepares the allocation, before its tasks. The context ends when the
// allocation is killed or the agent stops.
type prerunHook interface {
	hook
	prerun(ctx context.Context) error
}

// postrunHook runs after the tasks, all of them whatever fails, also if prerun did not.
type postrunHook interface {
	hook
	postrun() error
}

// destroyHook removes what the allocation has; also if nothing else ran.
type destroyHook interface {
	hook
	destroy() error
}

func (r *Runner) buildHooks() []hook {
	return []hook{dirHook{r}, awaitHook{r}, migrateHook{r}, networkHook{r}, servicesHook{r}}
}

// prerun runs the prerun hooks up to the first that fails.
func (r *Runner) prerun(ctx context.Context) error {
	for _, h := range r.hooks {
		p, ok := h.(prerunHook)
		if !ok {
			continue
		}
		if err := p.prerun(ctx); err != nil {
			return fmt.Errorf("pre-run hook %q failed: %w", h.name(), err)
		}
	}
	return nil
}

func (r *Runner) postrun() {
	for _, h := range r.hooks {
		if p, ok := h.(postrunHook); ok {
			if err := p.postrun(); err != nil {
				r.logger.Error("post-run hook failed", "hook", h.name(), "error", err)
			}
		}
	}
}

func (r *Runner) destroyHooks() {
	for _, h := range r.hooks {
		if d, ok := h.(destroyHook); ok {
			if err := d.destroy(); err != nil {
				r.logger.Error("destroy hook failed", "hook", h.name(), "error", err)
			}
		}
	}
}

// dirHook builds and removes the allocation's directory.
type dirHook struct{ r *Runner }

func (dirHook) name() string                     { return "alloc_dir" }
func (h dirHook) prerun(_ context.Context) error { return h.r.dir.Build() }
func (h dirHook) destroy() error                 { return h.r.dir.Destroy() }

// awaitHook waits for the allocations that have to end before this one.
type awaitHook struct{ r *Runner }

func (awaitHook) name() string { return "await_previous_allocations" }

func (h awaitHook) prerun(ctx context.Context) error {
	if h.r.started() {
		return nil // an earlier agent waited
	}
	if what := h.r.cfg.Watcher.Waiting(); what != "" {
		h.r.tell(what)
	}
	return h.r.cfg.Watcher.Wait(ctx, h.r.tell)
}

// tell makes a text an event of every task.
func (r *Runner) tell(text string) {
	for _, t := range r.tasks {
		t.Emit(structs.NewTaskEvent(structs.EventHookMessage).WithMessage(text))
	}
}

// migrateHook takes over the previous allocation's disk. If that fails the allocation
// starts with an empty one.
type migrateHook struct{ r *Runner }

func (migrateHook) name() string { return "migrate_disk" }

func (h migrateHook) prerun(ctx context.Context) error {
	if h.r.started() {
		return nil // the disk is in use since
	}
	bounded, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	names := make([]string, 0, len(h.r.tasks))
	for _, t := range h.r.tasks {
		names = append(names, t.Name())
	}
	told, err := h.r.cfg.Watcher.Migrate(bounded, h.r.dir, names)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		h.r.logger.Warn("the previous allocation's disk is lost", "error", err)
		h.r.tell("The disk of the previous allocation is lost, and this one's is empty: " + err.Error())
		return errors.Join(h.r.dir.Destroy(), h.r.dir.Build())
	case told != "":
		h.r.logger.Warn("the previous allocation's disk is not all there", "reason", told)
		h.r.tell(told)
	}
	return nil
}

// networkHook gives the allocation a network of its own, if its group asks for one. The
// tasks of an earlier agent run in it: it is the same then.
type networkHook struct{ r *Runner }

func (networkHook) name() string { return "network" }

func (h networkHook) prerun(ctx context.Context) error {
	alloc := h.r.Alloc()
	switch mode := alloc.NetworkMode(); {
	case mode == "":
		return nil
	case h.r.cfg.Networks == nil:
		return fmt.Errorf("this node has no networks of mode %q", mode)
	}
	given, err := h.r.cfg.Networks.Up(ctx, alloc, h.create)
	if err != nil {
		return err
	}
	h.r.setNetwork(given)
	return nil
}

func (h networkHook) postrun() error {
	if h.r.Alloc().NetworkMode() == "" || h.r.cfg.Networks == nil {
		return nil
	}
	err := h.r.cfg.Networks.Down(context.Background(), h.r.Alloc())
	h.letGo()
	return err
}

func (h networkHook) destroy() error { return h.postrun() } // what failed then, or did not run
