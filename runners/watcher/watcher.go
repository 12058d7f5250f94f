package watcher

import (
	"context"
	"fmt"
	"strings"

	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/runners/broadcast"
	"github.com/wasmnode/wasmnode/structs"
)

// Other is another allocation of this node: an alloc.Runner.
type Other interface {
	AllocState() *structs.AllocationState
	AllocDir() *allocdir.Dir
	// Listener receives its states. It is closed when nothing of it runs any more, or
	// it was left by an agent that stops.
	Listener() *broadcast.Listener
}

// Find gives another allocation on this node; nil: there is none, and nothing to wait
// for. An allocation on another node is the control plane's to wait for.
type Find func(id string) Other

// Watcher waits for other allocations. It is an alloc.Watcher. Others are looked up when
// they are waited for, so that restored allocations wait as new ones do. Methods may be
// called concurrently.
type Watcher struct {
	replaced []string // the newest first
	others   []other
	sticky   bool
	find     Find
}

type other struct{ id, why string }

// New is the watcher of an allocation. known are the node's allocations, by ID: all that
// one which a waits for would wait for are waited for too. It may have been stopped or
// preempted while it waited itself, or before it reached the node, and the scheduler has
// given their place on.
func New(a *structs.Allocation, known map[string]*structs.Allocation, find Find) *Watcher {
	w := &Watcher{find: find}
	seen := map[string]bool{a.ID: true}
	var follow func(a *structs.Allocation, replaced bool)
	follow = func(a *structs.Allocation, replaced bool) {
		if a == nil {
			return
		}
		for id := range a.WaitsFor {
			if seen[id] {
				continue
			}
			seen[id] = true
			why, replaced := "preempted", replaced && id == a.PreviousAllocation
			if id == a.PreviousAllocation {
				why = "previous"
			}
			if replaced {
				w.replaced = append(w.replaced, id)
			}
			w.others = append(w.others, other{id, why})
			follow(known[id], replaced)
		}
	}
	follow(a, true)
	if g := a.Group(); g != nil && g.EphemeralDisk != nil {
		d := g.EphemeralDisk
		w.sticky = d.Sticky != nil && *d.Sticky || d.Migrate != nil && *d.Migrate
	}
	return w
}

// Wait returns when all the others have ended, in whatever order, or with ctx's error.
func (w *Watcher) Wait(ctx context.Context) error {
	for _, o := range w.others {
		if r := w.find(o.id); r != nil {
			if err := waitFor(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// waitFor waits for one to have ended in every sense: its state is terminal and no
// goroutine works on it, so that its tasks are gone and its disk is not in use.
func waitFor(ctx context.Context, r Other) error {
	l := r.Listener()
	defer l.Close()
	for open := true; open; {
		select {
		case _, open = <-l.Ch():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if !ended(r) {
		// It was left running because the agent stops, and so does this allocation.
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func ended(r Other) bool { return r.AllocState().ClientStatus.Terminal() }

// Waiting returns which allocations have not ended, in the order in which they are waited
// for; empty: none.
func (w *Watcher) Waiting() string {
	var names []string
	for _, o := range w.others {
		if r := w.find(o.id); r != nil && !ended(r) {
			names = append(names, o.why+" allocation "+o.id)
		}
	}
	if names == nil {
		return ""
	}
	return "Waiting for " + strings.Join(names, ", ") + " to end"
}

// Migrate takes over the disk of what the allocation replaces, if the group's ephemeral_disk says that it
// is sticky or to be migrated. An allocation that never started left what it was to take
// over where it was, so the one before it is asked too.
func (w *Watcher) Migrate(ctx context.Context, to *allocdir.Dir, tasks []string) error {
	if !w.sticky {
		return nil
	}
	for _, id := range w.replaced {
		if err := ctx.Err(); err != nil {
			return err
		}
		r := w.find(id)
		if r == nil {
			continue
		}
		if err := to.Move(r.AllocDir(), tasks); err != nil {
			return fmt.Errorf("watcher: disk of allocation %s: %w", id, err)
		}
		if started(r) {
			return nil
		}
	}
	return nil
}

func started(r Other) bool {
	for _, s := range r.AllocState().TaskStates {
		if !s.StartedAt.IsZero() {
			return true
		}
	}
	return false
}
