package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
	"github.com/wasmnode/wasmnode/workload"
)

// adopted returns when the control plane has compared what it knows with what the node does,
// and false when ctx is done before.
func (n *Node) adopted(ctx context.Context) bool {
	if n.Adoption() != nil {
		return true
	}
	_, err := retry(ctx, func() (struct{}, error) {
		seen, err := n.seen()
		if err == nil {
			err = n.adopt(ctx, seen)
		}
		return struct{}{}, err
	}, func(err error) {
		n.logger.Warn("comparing with the control plane what the node knows failed, trying again", "error", err)
	})
	if err == nil {
		n.markWaiting()
	}
	return err == nil
}

// markWaiting notes which of the allocations that were read back wait for a decision, and
// which the control plane has let go of.
func (n *Node) markWaiting() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.adoption == nil {
		return
	}
	for _, id := range n.adoption.Released {
		if e := n.runners[id]; e != nil {
			e.forgotten = true
			n.mark(id)
		}
	}
	for _, waiting := range []map[string]string{n.waiting, n.adoption.Waiting} {
		for id, why := range waiting {
			if e := n.runners[id]; e != nil {
				e.unclaimed, e.forgotten = why, false
				n.mark(id)
			}
		}
	}
}

// waitingNow is why allocations wait for a decision, by ID.
func (n *Node) waitingNow() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	waiting := map[string]string{}
	for id, e := range n.marked {
		if e.unclaimed != "" && !e.destroying {
			waiting[id] = e.unclaimed
		}
	}
	return waiting
}

// claimed notes that the control plane has an allocation.
func (n *Node) claimed(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.runners[id]; e != nil {
		e.unclaimed, e.forgotten = "", false
		n.mark(id)
	}
}

// missing decides on an allocation that the control plane does not have. It lets go only of
// what has ended: what has not, it has lost.
func (n *Node) missing(id string) {
	n.mu.Lock()
	e := n.runners[id]
	if e == nil || e.unclaimed != "" {
		n.mu.Unlock()
		return
	}
	lost := !e.forgotten && !n.report.ended(id)
	if lost {
		e.unclaimed = "the control plane does not know of it, and it has not ended"
	} else {
		e.forgotten = true
	}
	n.mark(id)
	n.mu.Unlock()
	if lost {
		n.logger.Error("an allocation that runs is unknown to the control plane: it runs on until `wasmnode operator adopt` or `discard`", "alloc_id", id)
		return
	}
	n.destroyForgotten()
}

// destroyForgotten destroys what the control plane has let go of and knows to have ended.
func (n *Node) destroyForgotten() {
	var ids []string
	n.mu.Lock()
	for id, e := range n.marked {
		if e.forgotten && !e.destroying && n.report.endKnown(id) {
			ids = append(ids, id)
		}
	}
	n.mu.Unlock()
	for _, id := range ids {
		n.destroy(id)
	}
}

// keepUnread notes an allocation that cannot be read back.
func (n *Node) keepUnread(id string, a *structs.Allocation, err error) {
	n.logger.Error("an allocation cannot be taken up again; what runs of it, and its data, are kept", "alloc_id", id, "error", err)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unread[id] = &unread{alloc: a, why: err.Error()}
}

// mayRun reports whether something of an allocation without a runner may run.
func (n *Node) mayRun(id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unread[id] != nil || n.left.of(id)
}

// mayHave reports whether the node has an allocation, or may have something of it that runs.
func (n *Node) mayHave(id string) bool {
	n.mu.Lock()
	has := n.runners[id] != nil
	n.mu.Unlock()
	return has || n.mayRun(id)
}

// waits reports whether an allocation is known, and what is stored of its tasks is not: a
// person decides whether it is taken up without that.
func (n *Node) waits(id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unread[id] != nil && n.unread[id].alloc != nil
}

// Unclaimed is what the node keeps although it is not known to be wanted, sorted by
// allocation. It runs on until a person decides, or it ends.
func (n *Node) Unclaimed(ctx context.Context) []structs.Unclaimed {
	ended := n.endedStrays(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	byID := map[string]*structs.Unclaimed{}
	for id, e := range n.runners {
		if e.destroying {
			continue
		}
		a, why := e.runner.Alloc(), e.unclaimed
		adoptable := why != ""
		for _, held := range e.runner.Held() {
			why = cmp.Or(why, held)
		}
		if why != "" {
			byID[id] = &structs.Unclaimed{AllocID: id, Namespace: a.Namespace, JobID: a.JobID, TaskGroup: a.TaskGroup, Reason: why, Adoptable: adoptable}
		}
	}
	if n.settled {
		n.addLeftovers(byID, ended)
	}
	list := make([]structs.Unclaimed, 0, len(byID))
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		list = append(list, *byID[id])
	}
	return list
}

// addLeftovers adds what has no runner, but for the strays that have ended. n.mu is held.
func (n *Node) addLeftovers(byID map[string]*structs.Unclaimed, ended map[string]bool) {
	for id, u := range n.unread {
		byID[id] = &structs.Unclaimed{AllocID: id, Reason: "it cannot be taken up again: " + u.why, Adoptable: u.alloc != nil}
		if u.alloc != nil {
			byID[id].Namespace, byID[id].JobID, byID[id].TaskGroup = u.alloc.Namespace, u.alloc.JobID, u.alloc.TaskGroup
		}
	}
	for _, id := range slices.Sorted(maps.Keys(n.strays)) {
		if _, over := ended[id]; over {
			continue
		}
		allocID := allocOf(id)
		if byID[allocID] == nil {
			byID[allocID] = &structs.Unclaimed{AllocID: allocID, Reason: "a workload runs of which neither the node nor the control plane knows more than its ID"}
		}
		byID[allocID].Workloads = append(byID[allocID].Workloads, id)
	}
	for id := range n.dirs {
		if byID[id] == nil && n.runners[id] == nil {
			byID[id] = &structs.Unclaimed{AllocID: id, Reason: "its directory is left, and neither the node nor the control plane knows more of it"}
		}
	}
}

// endedStrays are the strays that have ended by themselves, and whether anything is left of
// them. It changes nothing: it is asked by requests that may have no effect.
func (n *Node) endedStrays(ctx context.Context) map[string]bool {
	n.mu.Lock()
	ids := slices.Collect(maps.Keys(n.strays))
	n.mu.Unlock()
	ended := map[string]bool{}
	for _, id := range ids {
		s, err := n.left.Inspect(ctx, id)
		switch {
		case errors.Is(err, abi.ErrTaskNotFound):
			ended[id] = false
		case err == nil && s.State != workload.Running:
			ended[id] = true
		}
	}
	return ended
}

// dropEndedStrays forgets strays that have ended by themselves, with what is left of them: it
// is found again otherwise.
func (n *Node) dropEndedStrays(ctx context.Context) {
	for id, left := range n.endedStrays(ctx) {
		if left {
			if err := n.cfg.Workloads.Destroy(ctx, id); err != nil {
				n.logger.Warn("forgetting a workload that nobody claimed and that has ended failed, trying again", "id", id, "error", err)
				continue
			}
		}
		n.mu.Lock()
		delete(n.strays, id)
		n.mu.Unlock()
	}
}

// Adopt has the control plane take an allocation that waits for a decision.
// errdefs.NotFound: nothing waits under that ID; errdefs.FailedPrecondition: too little is
// known of it.
func (n *Node) Adopt(ctx context.Context, id string) error {
	e, u, stray := n.kept(id)
	switch {
	case e != nil && e.unclaimed != "":
		if err := n.cfg.ControlPlane.Claim(ctx, n.ID(), structs.KnownAllocation{Allocation: e.runner.Alloc(), State: e.runner.AllocState()}); err != nil {
			return err
		}
		n.claimed(id)
		return nil
	case u != nil && u.alloc != nil:
		return n.adoptUnread(ctx, u.alloc)
	case u != nil, stray:
		return errdefs.New(errdefs.FailedPrecondition, "%s cannot be adopted: nothing is known of its job: wait until it has ended, or discard it", id)
	case e != nil && len(e.runner.Held()) > 0:
		return errdefs.New(errdefs.FailedPrecondition, "allocation %s is known; a task of it waits for a workload that its driver does not take back: wait until that has ended, or discard it", id)
	}
	return errdefs.New(errdefs.NotFound, "nothing that is unclaimed has the ID %q", id)
}

// adoptUnread gives up what is stored of an allocation's tasks, once the control plane has
// taken the allocation, and takes it up with what runs of it.
func (n *Node) adoptUnread(ctx context.Context, a *structs.Allocation) error {
	if err := n.cfg.ControlPlane.Claim(ctx, n.ID(), structs.KnownAllocation{Allocation: a}); err != nil {
		return err
	}
	if err := errors.Join(n.cfg.State.DeleteAllocation(a.ID), n.cfg.State.PutAllocation(a)); err != nil {
		return fmt.Errorf("allocation %s: storing it anew: %w", a.ID, err)
	}
	r, err := n.newRunner(a, nil)
	if err != nil {
		return errdefs.New(errdefs.FailedPrecondition, "allocation %s: %v", a.ID, err)
	}
	if r = n.readBack(r); r != nil {
		go n.runToEnd(r)
	}
	return nil
}

// kept is what the node has under an allocation's ID, unless that is being destroyed.
func (n *Node) kept(id string) (e *entry, u *unread, stray bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := n.runners[id]; now != nil && !now.destroying {
		c := *now // it changes under the lock
		e = &c
	}
	stray = n.dirs[id]
	for workloadID := range n.strays {
		stray = stray || allocOf(workloadID) == id
	}
	return e, n.unread[id], stray
}

// Discard ends what is unclaimed under an ID, and removes its data; of a task that waits for
// a workload, it ends that workload only. It returns when that is done or ctx is done.
// errdefs.NotFound: nothing waits under that ID.
func (n *Node) Discard(ctx context.Context, id string) error {
	e, u, stray := n.kept(id)
	switch {
	case e != nil && e.unclaimed != "":
		n.logger.Warn("an unclaimed allocation is discarded", "alloc_id", id)
		select {
		case <-n.destroy(id):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	case e != nil && len(e.runner.Held()) > 0:
		for name := range e.runner.Held() {
			if err := n.destroyWorkloads(ctx, id+"/"+name+"/"); err != nil {
				return err
			}
		}
		return nil
	case u == nil && !stray:
		return errdefs.New(errdefs.NotFound, "nothing that is unclaimed has the ID %q", id)
	}
	n.logger.Warn("what cannot be read back of an allocation is discarded", "alloc_id", id)
	if err := n.destroyWorkloads(ctx, id+"/"); err != nil {
		return err
	}
	err := n.cfg.State.DeleteAllocation(id)
	if uuid.Validate(id) == nil { // else it is no allocation's, and may be anything's name
		err = errors.Join(err, allocdir.New(n.cfg.AllocsDir, id).Destroy())
	}
	if err != nil {
		return fmt.Errorf("allocation %s: %w", id, err)
	}
	n.mu.Lock()
	delete(n.unread, id)
	delete(n.dirs, id)
	n.mu.Unlock()
	return nil
}

// destroyWorkloads destroys the workloads whose IDs begin with a prefix.
func (n *Node) destroyWorkloads(ctx context.Context, prefix string) error {
	for _, w := range n.left.list {
		if !strings.HasPrefix(w.ID, prefix) {
			continue
		}
		n.logger.Warn("destroying a discarded workload", "id", w.ID)
		if err := n.cfg.Workloads.Destroy(ctx, w.ID); err != nil {
			return fmt.Errorf("workload %s: %w", w.ID, err)
		}
		n.mu.Lock()
		delete(n.strays, w.ID)
		n.mu.Unlock()
	}
	return nil
}
