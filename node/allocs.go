package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/structs"
)

// watchLoop applies what the control plane wants, again and again.
func (n *Node) watchLoop(ctx context.Context) {
	if !n.adopted(ctx) {
		return
	}
	var seen uint64
	for ctx.Err() == nil {
		news, err := n.cfg.ControlPlane.Allocations(ctx, n.ID(), seen)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			n.logger.Warn("asking for allocations failed, trying again", "error", err)
			select {
			case <-time.After(firstRetry):
			case <-ctx.Done():
			}
			continue
		}
		seen = news.Index
		all := n.apply(news)
		if !wake.IsClosed(n.directed) {
			close(n.directed)
		}
		if !all {
			seen = 0 // the same again
			select {
			case <-time.After(roomTick):
			case <-ctx.Done():
			}
		}
	}
}

// roomTick is how often it is tried again to take what a full disk has no room for.
const roomTick = time.Second

// apply makes the runners equal to what is wanted: what was let go of is destroyed, what
// has changed is updated, and then what is new is started, so that it finds what it
// replaces on its way out. What is stored is stored side by side, because it shares
// transactions then, and a transaction takes longer than all else here. What has not
// changed is not looked at. It reports whether there was room for all of it.
func (n *Node) apply(news *structs.Assignments) (all bool) {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { n.remember(news) })
	for id := range n.assign(news) {
		n.missing(id)
	}
	var added, changed []*structs.Allocation
	wanted, known := n.withPredecessorsHere(news.Changed)
	for _, a := range wanted {
		n.claimed(a.ID)
		switch r, _ := n.runner(a.ID); {
		case r == nil:
			added = append(added, a)
		case a.AllocModifyIndex > r.Alloc().AllocModifyIndex:
			changed = append(changed, a)
		}
	}
	sideBySide(len(changed), func(i int) { n.update(changed[i]) })
	runners := make([]*alloc.Runner, len(added))
	var full atomic.Bool
	sideBySide(len(added), func(i int) {
		var err error
		if runners[i], err = n.add(added[i], known); err != nil {
			full.Store(true)
		}
	})
	n.settleStrays()
	for _, r := range runners {
		if r != nil {
			go n.runToEnd(r)
		}
	}
	return !full.Load()
}

// assign takes over what changed, forgets what became of allocations that are gone
// altogether, and returns those that are gone and have a runner.
func (n *Node) assign(news *structs.Assignments) (gone map[string]bool) {
	if news.All {
		n.assigned, n.gone = map[string]*structs.Allocation{}, n.report.known()
	}
	for _, id := range news.Gone {
		delete(n.assigned, id)
		n.gone[id] = true
	}
	for _, a := range news.Changed {
		n.assigned[a.ID] = &structs.Allocation{
			ID: a.ID, PreviousAllocation: a.PreviousAllocation, PreemptedAllocations: a.PreemptedAllocations,
			DesiredStatus: a.DesiredStatus, ClientStatus: a.ClientStatus,
		}
		delete(n.gone, a.ID)
	}
	n.mu.Lock()
	if news.All {
		for id := range n.runners {
			if n.assigned[id] == nil {
				n.gone[id] = true
			}
		}
	}
	gone = map[string]bool{}
	for id := range n.gone {
		if n.runners[id] != nil {
			gone[id] = true
		}
	}
	n.mu.Unlock()
	n.report.prune(n.gone, func(id string) bool { return gone[id] })
	return gone
}

// endedHere reports whether an allocation that the node is to know has ended, as the control
// plane told or as the node knows.
func (n *Node) endedHere(id string) bool {
	a := n.assigned[id]
	return a != nil && (a.ClientStatus.Terminal() || n.report.ended(id))
}

// absent reports whether an allocation has ended that the node has no runner of.
func (n *Node) absent(id string) bool {
	a := n.assigned[id]
	if a == nil || !a.ServerTerminal() && !n.endedHere(id) {
		return false
	}
	r, _ := n.runner(id)
	return r == nil
}

// withPredecessorsHere returns the allocations so that each waits for the nearest ones before
// it that have a runner or are to get one, if any, and all that they lead to by what they
// wait for. What ended without a runner, as what was stopped before it reached the node, is
// not stored: after a restart it would not lead to what is still to be waited for.
func (n *Node) withPredecessorsHere(wanted []*structs.Allocation) (list []*structs.Allocation, known map[string]*structs.Allocation) {
	known = map[string]*structs.Allocation{}
	var know func(a *structs.Allocation)
	know = func(a *structs.Allocation) {
		for id := range a.WaitsFor {
			if before := n.assigned[id]; before != nil && known[id] == nil {
				known[id] = n.pastAbsent(before)
				know(known[id])
			}
		}
	}
	for _, a := range wanted {
		a = n.pastAbsent(a)
		know(a)
		list = append(list, a)
	}
	return list, known
}

// pastAbsent returns an allocation that waits for what the absent ones that it waits for
// would wait for: a copy, if it waits for any.
func (n *Node) pastAbsent(of *structs.Allocation) *structs.Allocation {
	waits := false
	for id := range of.WaitsFor {
		waits = waits || n.absent(id)
	}
	if !waits {
		return of
	}
	c := of.Copy()
	c.PreviousAllocation, c.PreemptedAllocations = "", nil
	seen := map[string]bool{of.ID: true}
	var follow func(a *structs.Allocation, replaced bool)
	follow = func(a *structs.Allocation, replaced bool) {
		for id := range a.WaitsFor {
			replaced := replaced && id == a.PreviousAllocation
			switch {
			case seen[id]:
			case n.absent(id):
				seen[id] = true // before it can lead back here
				follow(n.assigned[id], replaced)
			case replaced:
				c.PreviousAllocation = id
			default:
				c.PreemptedAllocations = append(c.PreemptedAllocations, id)
			}
			seen[id] = true
		}
	}
	follow(of, true)
	return c
}

// sideBySide calls do for 0 to n-1 at the same time, and returns when all have returned.
// The last is the caller's own: one alone needs no other goroutine.
func sideBySide(n int, do func(i int)) {
	var others sync.WaitGroup
	defer others.Wait()
	for i := range n - 1 {
		others.Go(func() { do(i) })
	}
	if n > 0 {
		do(n - 1)
	}
}

// update hands a runner the allocation's new version, once that is durable.
func (n *Node) update(a *structs.Allocation) {
	r, err := n.runner(a.ID)
	if err != nil {
		return // it was destroyed meanwhile
	}
	if err := n.cfg.State.PutAllocation(a); err != nil {
		// Stopping must work with a full disk too; after a restart the control
		// plane delivers it again.
		n.logger.Error("storing an allocation's update failed; it is applied all the same", "alloc_id", a.ID, "error", err)
	}
	r.Update(a)
	if a.ClientStatus == structs.ClientUnknown && !a.ServerTerminal() {
		r.Reconnected() // the control plane had missed the node, and kept the allocation's place
	}
}

// add returns a runner, which is to be run, for an allocation that is new here, once
// that is durable. One that ended here is not new, even while the control plane does
// not know of its end: there is no runner for it, nor when the allocation is refused. The
// error is that the disk is full, and it is to be added again.
func (n *Node) add(a *structs.Allocation, known map[string]*structs.Allocation) (*alloc.Runner, error) {
	if !n.isNew(a) {
		return nil, nil
	}
	// The control plane has it too, in a file of its own. This copy is the node's: what
	// runs is restored from it while the control plane cannot be reached, or has lost it.
	err := n.cfg.State.PutAllocation(a)
	if errors.Is(err, boltfile.ErrFull) {
		if !n.mayRun(a.ID) {
			n.report.add(&structs.AllocationState{ID: a.ID, ClientStatus: structs.ClientPending, ClientDescription: "waiting for room on the node's disk"})
		}
		return nil, err
	}
	if err != nil {
		n.refuse(a, fmt.Errorf("storing it: %w", err))
		return nil, nil
	}
	r, err := n.newRunner(a, known)
	if err != nil {
		n.refuse(a, err)
		return nil, nil
	}
	if n.mayRun(a.ID) {
		return n.readBack(r), nil
	}
	if !n.addRunner(a.ID, r) {
		return nil, nil
	}
	return r, nil
}

// isNew reports whether an allocation is to get a runner. What became of one that is not is
// reported, where the control plane does not know it.
func (n *Node) isNew(a *structs.Allocation) bool {
	switch {
	case n.report.ended(a.ID) || n.waits(a.ID):
		return false
	case a.ClientStatus.Terminal() && n.hasDir(a.ID):
		// What was known of it here is lost: it is taken up to be collected as any other.
	case a.ClientStatus.Terminal():
		return false
	case n.mayRun(a.ID):
	case a.ServerTerminal() && a.ClientStatus == structs.ClientPending:
		n.report.add(&structs.AllocationState{ID: a.ID, ClientStatus: structs.ClientComplete, ClientDescription: "stopped before it reached the node"})
		return false
	case a.ServerTerminal():
		n.report.add(&structs.AllocationState{ID: a.ID, ClientStatus: structs.ClientLost, ClientDescription: "the node has no record of it"})
		return false
	}
	return true
}

// refuse reports an allocation that cannot be run here as failed, unless it may run already.
func (n *Node) refuse(a *structs.Allocation, cause error) {
	if n.mayRun(a.ID) {
		n.keepUnread(a.ID, a, cause)
		return
	}
	n.logger.Error("adding an allocation failed", "alloc_id", a.ID, "error", cause)
	n.report.add(&structs.AllocationState{
		ID:                a.ID,
		ClientStatus:      structs.ClientFailed,
		ClientDescription: fmt.Sprintf("Unable to add allocation due to error: %v", cause),
	})
	if err := n.cfg.State.DeleteAllocation(a.ID); err != nil {
		n.logger.Error("forgetting an allocation failed; it is tried again after a restart", "alloc_id", a.ID, "error", err)
	}
}

func (n *Node) newRunner(a *structs.Allocation, known map[string]*structs.Allocation) (*alloc.Runner, error) {
	var heard <-chan struct{}
	if n.cfg.Elsewhere != nil { // what did not survive may run there
		heard = n.directed
	}
	return alloc.New(alloc.Config{
		Alloc:          a,
		Heard:          heard,
		Node:           n.self.get,
		AllocsDir:      n.cfg.AllocsDir,
		State:          n.cfg.State,
		Dispense:       n.cfg.Dispense,
		DestroyNetwork: n.cfg.DestroyNetwork,
		HostEnv:        n.cfg.HostEnv,
		Networks:       n.cfg.Networks,
		ReservedCores:  n.reservedCores,
		Devices:        n.cfg.Devices,
		Left:           n.left,
		StateUpdated:   n.stateUpdated,
		Watcher:        n.watcher(a, known),
		Logger:         n.logger,
		Limits:         n.cfg.Limits,
		Services:       n.services,
		Lookup:         n.cfg.ControlPlane,
		Variables:      n.cfg.ControlPlane,
		Identities:     n.cfg.ControlPlane,
		API:            n.cfg.API,

		SecretsInMemory: n.cfg.SecretsInMemory,
		Traces:          n.cfg.Traces,
	})
}

// reservedCores are the cores that tasks have reserved whose allocations have not ended.
func (n *Node) reservedCores() (cores []int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.withCores {
		if e.ended.IsZero() {
			cores = append(cores, coresOf(e.runner.Alloc())...)
		}
	}
	return cores
}

// coresOf are the cores that an allocation's tasks have reserved, which never change.
func coresOf(a *structs.Allocation) (cores []int) {
	for _, t := range a.Resources.Tasks {
		if t != nil {
			cores = append(cores, t.Cores...)
		}
	}
	return cores
}

// addRunner adds a runner, unless the node is shutting down or has one for the allocation,
// which the control plane and a person may hand it at the same time.
func (n *Node) addRunner(id string, r *alloc.Runner) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.runners[id] != nil {
		return false
	}
	n.runners[id] = &entry{runner: r}
	if len(coresOf(r.Alloc())) > 0 { // few have any, and each start asks
		n.withCores[id] = n.runners[id]
	}
	n.mark(id)
	n.heard.wake.Set()
	return true
}

// mark keeps the set of runners that do not just run, after one has changed. n.mu is held.
func (n *Node) mark(id string) {
	if e := n.runners[id]; e == nil || e.justRuns() {
		delete(n.marked, id)
	} else {
		n.marked[id] = e
	}
}

// runToEnd runs an allocation; what it leaves is garbage then.
func (n *Node) runToEnd(r *alloc.Runner) {
	if g := r.Alloc().Group(); g != nil && len(g.Volumes) > 0 {
		_ = n.VolumesReady(n.running) // the error: the node ends
	}
	r.Run()
	n.ended.Set()
}

// stateUpdated takes every new state of every allocation.
func (n *Node) stateUpdated(s *structs.AllocationState) {
	n.mu.Lock()
	if e := n.runners[s.ID]; e != nil {
		e.started = e.started || s.ClientStatus != structs.ClientPending
		if s.ClientStatus.Terminal() && e.ended.IsZero() {
			e.ended = endOf(s)
		}
		n.mark(s.ID)
	}
	n.mu.Unlock()
	n.report.add(s)
}

// endOf is when an allocation's last task ended, which may be before this agent began.
func endOf(s *structs.AllocationState) time.Time {
	var last time.Time
	for _, t := range s.TaskStates {
		if t.FinishedAt.After(last) {
			last = t.FinishedAt
		}
	}
	if last.IsZero() {
		return time.Now() // none of them ever ran
	}
	return last
}

// destroy ends an allocation, removes what is left of it, and forgets it. It does not
// wait; done is closed when it is gone.
func (n *Node) destroy(id string) (done <-chan struct{}) {
	n.mu.Lock()
	e := n.runners[id]
	if e == nil {
		n.mu.Unlock()
		gone := make(chan struct{})
		close(gone)
		return gone
	}
	first := !e.destroying
	e.destroying = true
	n.mark(id)
	n.mu.Unlock()
	if first {
		e.runner.Destroy()
		go func() {
			<-e.runner.DestroyCh()
			n.mu.Lock()
			delete(n.runners, id)
			delete(n.withCores, id)
			n.mark(id)
			n.mu.Unlock()
		}()
	}
	return e.runner.DestroyCh()
}

// restore brings back what was stored: first every runner, then all of them run, so
// that each finds those that it waits for. In between, what they do not have is ended.
// Each runs once the drivers and devices that it needs are there, and waits for no others.
func (n *Node) restore(ctx context.Context) error {
	allocs, broken, err := n.cfg.State.Allocations()
	if err != nil {
		return fmt.Errorf("restoring allocations: %w", err)
	}
	if n.cfg.Stored != nil {
		n.cfg.Stored(allocs)
	}
	for id, err := range broken {
		n.keepUnread(id, nil, err)
	}
	known := make(map[string]*structs.Allocation, len(allocs))
	for _, a := range allocs {
		known[a.ID] = a
	}
	var restored []*alloc.Runner
	for _, a := range allocs {
		r, err := n.newRunner(a, known)
		if err != nil {
			n.keepUnread(a.ID, a, err)
			continue
		}
		if r = n.readBack(r); r != nil {
			n.stopUnheard(r, n.heard.before)
			restored = append(restored, r)
		}
	}
	n.mu.Lock()
	n.restored = true
	n.mu.Unlock()
	n.markWaiting()
	n.findStrays(ctx, restored)
	for _, r := range restored {
		go func() {
			if n.cfg.ReadyFor != nil {
				n.awaitPlugins(ctx, func(ctx context.Context) error { return n.cfg.ReadyFor(ctx, r.Alloc()) })
			}
			n.runToEnd(r)
		}()
	}
	if len(restored) > 0 {
		n.logger.Info("restored allocations", "count", len(restored))
	}
	return nil
}

// readBack adds a runner that has read back what is stored of its allocation. One that
// cannot be read back has no runner: nil.
func (n *Node) readBack(r *alloc.Runner) *alloc.Runner {
	a := r.Alloc()
	err := r.Restore()
	if err != nil && !errors.Is(err, alloc.ErrNoDirectory) {
		n.keepUnread(a.ID, a, err)
		return nil
	}
	if !n.addRunner(a.ID, r) {
		return nil
	}
	n.mu.Lock()
	delete(n.unread, a.ID)
	if s := r.AllocState(); s.ClientStatus.Terminal() {
		n.runners[a.ID].ended = endOf(s)
	}
	n.mu.Unlock()
	if err != nil {
		n.logger.Error("restoring an allocation failed", "alloc_id", a.ID, "error", err)
		r.Fail("failed to restore: " + err.Error())
		n.destroy(a.ID)
		return nil
	}
	return r
}
