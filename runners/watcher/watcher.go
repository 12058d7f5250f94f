package watcher

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/structs"
)

// Other is another allocation of this node: an alloc.Runner.
type Other interface {
	Alloc() *structs.Allocation
	AllocState() *structs.AllocationState
	AllocDir() *allocdir.Dir
	// WaitCh is closed when nothing of it runs any more, or it was left by an agent
	// that stops.
	WaitCh() <-chan struct{}
}

// Watcher waits for other allocations. It is an alloc.Watcher.
type Watcher struct {
	alloc    *structs.Allocation
	previous Other
	others   []Other

	mu   sync.Mutex
	left map[string]string // what is still waited for: why, by allocation ID
}

// New is the watcher of an allocation. find gives the runner of another allocation on
// this node; nil: there is none, and nothing to wait for. An allocation on another node
// is the control plane's to wait for.
func New(a *structs.Allocation, find func(id string) Other) *Watcher {
	w := &Watcher{alloc: a, left: map[string]string{}}
	add := func(id, why string) Other {
		if id == "" || w.left[id] != "" {
			return nil
		}
		other := find(id)
		if other != nil {
			w.others = append(w.others, other)
			w.left[id] = why
		}
		return other
	}
	w.previous = add(a.PreviousAllocation, "previous")
	for _, id := range a.PreemptedAllocations {
		add(id, "preempted")
	}
	return w
}

// Wait returns when all the others have ended, in whatever order, or with ctx's error.
func (w *Watcher) Wait(ctx context.Context) error {
	for _, other := range w.others {
		if err := w.waitFor(ctx, other); err != nil {
			return err
		}
	}
	return nil
}

// waitFor waits for one to have ended in every sense: its state is terminal and no
// goroutine works on it, so that its tasks are gone and its disk is nobody's.
func (w *Watcher) waitFor(ctx context.Context, other Other) error {
	select {
	case <-other.WaitCh():
	case <-ctx.Done():
		return ctx.Err()
	}
	if !other.AllocState().ClientStatus.Terminal() {
		// It was left running because the agent stops, and so does this allocation.
		<-ctx.Done()
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.left, other.Alloc().ID)
	return nil
}

// Waiting says which allocations have not ended, in the order in which they are waited
// for; empty: none.
func (w *Watcher) Waiting() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for _, other := range w.others {
		id := other.Alloc().ID
		if why := w.left[id]; why != "" {
			names = append(names, why+" allocation "+id)
		}
	}
	if names == nil {
		return ""
	}
	return "Waiting for " + strings.Join(names, ", ") + " to end"
}

// Migrate takes over the previous allocation's disk, if the group says that it is
// sticky or to be migrated and the previous one was on this node.
func (w *Watcher) Migrate(_ context.Context, to *allocdir.Dir, tasks []string) error {
	group := w.alloc.Group()
	if w.previous == nil || group == nil || group.EphemeralDisk == nil {
		return nil
	}
	d := group.EphemeralDisk
	if (d.Sticky == nil || !*d.Sticky) && (d.Migrate == nil || !*d.Migrate) {
		return nil
	}
	if err := to.Move(w.previous.AllocDir(), tasks); err != nil {
		return fmt.Errorf("watcher: %w", err)
	}
	return nil
}
