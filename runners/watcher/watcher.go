package watcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

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

// Find gives another allocation on this node; nil: there is none.
type Find func(id string) Other

// Elsewhere knows the allocations that are not on this node. Its methods may be called concurrently.
type Elsewhere interface {
	// AwaitEnd returns when an allocation has ended that another, of this node, replaces, or when it is
	// not known whether it has, as its node is not heard of; or with ctx's error. It returns the node
	// that it was on; empty: nobody tells. Waits is called, at most once, when it has not ended.
	AwaitEnd(ctx context.Context, of *structs.Allocation, id string, waits func(nodeID string)) (nodeID string, err error)
	// Disk is the snapshot of its disk, from the node that it was on. The caller closes it.
	Disk(ctx context.Context, of *structs.Allocation, id, nodeID string) (io.ReadCloser, error)
}

// Watcher waits for other allocations. It is an alloc.Watcher. Others are looked up when
// they are waited for, so that restored allocations wait as new ones do. Methods may be
// called concurrently.
type Watcher struct {
	replaced []string // the newest first
	others   []other
	sticky   bool
	migrates bool
	find     Find
	alloc    *structs.Allocation

	elsewhere Elsewhere // nil: there is nothing

	mu sync.Mutex
	// nodes are those that replaced allocations were on, by ID, once they have ended.
	nodes map[string]string
	// awaited is the allocation elsewhere that has not ended; empty: none.
	awaited string
}

type other struct{ id, why string }

// New is the watcher of an allocation. known are the node's allocations, by ID: all that
// one which a waits for would wait for are waited for too. It may have been stopped or
// preempted while it waited itself, or before it reached the node, and the scheduler has
// given their place on. Where elsewhere is nil, all allocations are on this node.
func New(a *structs.Allocation, known map[string]*structs.Allocation, find Find, elsewhere Elsewhere) *Watcher {
	w := &Watcher{find: find, alloc: a, elsewhere: elsewhere, nodes: map[string]string{}}
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
		w.migrates = structs.Deref(d.Migrate)
		w.sticky = structs.Deref(d.Sticky) || w.migrates
	}
	return w
}

// Wait returns when all the others have ended, in whatever order, or with ctx's error. Those that
// were preempted are on this node: one that it does not have is gone. Tell is called with what is waited for on
// other nodes.
func (w *Watcher) Wait(ctx context.Context, tell func(what string)) error {
	for _, o := range w.others {
		if r := w.find(o.id); r != nil {
			if err := waitFor(ctx, r); err != nil {
				return err
			}
		}
	}
	if w.elsewhere == nil {
		return nil
	}
	for _, id := range w.replaced {
		if w.find(id) != nil {
			continue
		}
		nodeID, err := w.elsewhere.AwaitEnd(ctx, w.alloc, id, func(nodeID string) {
			w.setAwaited(id)
			tell(fmt.Sprintf("Waiting for previous allocation %s on node %s to end", id, nodeID))
		})
		if err != nil {
			return err
		}
		w.setAwaited("")
		w.mu.Lock()
		w.nodes[id] = nodeID
		w.mu.Unlock()
	}
	return nil
}

func (w *Watcher) setAwaited(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awaited = id
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
	w.mu.Lock()
	if w.awaited != "" {
		names = append(names, "previous allocation "+w.awaited+" on another node")
	}
	w.mu.Unlock()
	if names == nil {
		return ""
	}
	return "Waiting for " + strings.Join(names, ", ") + " to end"
}

// Migrate takes over the disk of what the allocation replaces, if the group's ephemeral_disk says that it
// is sticky or to be migrated: from this node, and if it is to be migrated from another one too. An allocation that
// never started left what it was to take over where it was, so the one before it is asked too. Told is what is to be
// known of a disk that was taken; empty: nothing.
func (w *Watcher) Migrate(ctx context.Context, to *allocdir.Dir, tasks []string) (told string, err error) {
	if !w.sticky {
		return "", nil
	}
	if was, err := to.Settle(tasks); was || err != nil {
		return "", err // an earlier agent had fetched it
	}
	for _, id := range w.replaced {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		r := w.find(id)
		if r == nil {
			continue
		}
		if _, err := r.AllocDir().Settle(tasks); err != nil {
			return "", fmt.Errorf("allocation %s: %w", id, err)
		}
		if err := to.Move(r.AllocDir(), tasks); err != nil {
			return "", fmt.Errorf("allocation %s: %w", id, err)
		}
		if started(r) {
			return "", nil
		}
	}
	if !w.migrates || w.elsewhere == nil || to.Holds(tasks) {
		return "", nil
	}
	for _, id := range w.replaced {
		if w.find(id) == nil {
			return w.fetch(ctx, id, to, tasks)
		}
	}
	return "", nil
}

// fetch takes the disk of an allocation of another node.
func (w *Watcher) fetch(ctx context.Context, id string, to *allocdir.Dir, tasks []string) (told string, err error) {
	w.mu.Lock()
	nodeID := w.nodes[id]
	w.mu.Unlock()
	leftOut := 0
	if nodeID == "" {
		err = errors.New("the servers do not tell where it was: they have forgotten it, or it is of another node pool")
	} else {
		leftOut, err = w.unpack(ctx, id, nodeID, to, tasks)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("allocation %s: %w", id, err)
	case leftOut > 0:
		return fmt.Sprintf("%d devices, pipes, hard links or links of the form a/../b of the disk of allocation %s are left out: a disk has files, directories and links", leftOut, id), nil
	}
	return "", nil
}

func (w *Watcher) unpack(ctx context.Context, id, nodeID string, to *allocdir.Dir, tasks []string) (leftOut int, err error) {
	in, err := w.elsewhere.Disk(ctx, w.alloc, id, nodeID)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	return to.Unpack(ctx, in, tasks, w.alloc.Resources.DiskMB)
}

func started(r Other) bool {
	for _, s := range r.AllocState().TaskStates {
		if !s.StartedAt.IsZero() {
			return true
		}
	}
	return false
}
