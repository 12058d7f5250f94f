package node

import (
	"context"
	"fmt"

	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/structs"
)

// predecessors is what an allocation waits for before it starts; it implements
// alloc.Watcher. Runners are looked up when they are waited for, so that restored
// allocations wait as new ones do.
type predecessors struct {
	n      *Node
	ids    []string // the one that it replaces first
	sticky bool
}

// watcher returns the watcher of an allocation. It waits not only for the one that it
// replaces but for all before it: that one may have been stopped while it waited
// itself, or before it reached the node, and the scheduler has given their place on.
// before maps an allocation to the one that it replaces.
func (n *Node) watcher(a *structs.Allocation, before map[string]string) alloc.Watcher {
	w := &predecessors{n: n}
	seen := map[string]bool{a.ID: true}
	for id := a.PreviousAllocation; id != "" && !seen[id]; id = before[id] {
		seen[id] = true
		w.ids = append(w.ids, id)
	}
	w.ids = append(w.ids, a.PreemptedAllocations...)
	if len(w.ids) == 0 {
		return alloc.NoWatcher{}
	}
	if g := a.Group(); g != nil && g.EphemeralDisk != nil {
		d := g.EphemeralDisk
		w.sticky = a.PreviousAllocation != "" && (d.Sticky != nil && *d.Sticky || d.Migrate != nil && *d.Migrate)
	}
	return w
}

// Wait implements alloc.Watcher. An allocation that is not here has ended, or never
// began.
func (w *predecessors) Wait(ctx context.Context) error {
	for _, id := range w.ids {
		r, err := w.n.runner(id)
		if err != nil {
			continue
		}
		select {
		case <-r.WaitCh():
		case <-ctx.Done():
			return ctx.Err()
		}
		if r.AllocState().ClientStatus.Terminal() {
			continue
		}
		// The node is shutting down and leaves its tasks running.
		select {
		case <-r.DestroyCh():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Migrate implements alloc.Watcher.
func (w *predecessors) Migrate(ctx context.Context, to *allocdir.Dir, tasks []string) error {
	if !w.sticky {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := w.n.runner(w.ids[0])
	if err != nil || !r.AllocDir().Exists() {
		return nil
	}
	return to.Move(r.AllocDir(), tasks)
}

// Waiting implements alloc.Watcher.
func (w *predecessors) Waiting() string {
	for _, id := range w.ids {
		if r, err := w.n.runner(id); err == nil && !r.AllocState().ClientStatus.Terminal() {
			return fmt.Sprintf("Waiting for allocation %s to end", id)
		}
	}
	return ""
}
