package node

import (
	"context"
	"fmt"
	"maps"

	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// unread is an allocation that cannot be read back. What runs of it is kept.
type unread struct {
	alloc *structs.Allocation // nil: not even that can be read
	why   string
}

// recall finds out what outlived the last agent, and has the control plane compare what the
// node knows with what it does, before anybody can see or change that.
func (n *Node) recall(ctx context.Context) {
	seen, err := n.seen()
	if err != nil {
		n.logger.Error("what the node saw last cannot be read", "error", err)
	}
	rebooted := seen.BootID != "" && n.cfg.BootID != "" && seen.BootID != n.cfg.BootID
	if n.left, err = survey(ctx, n.cfg.Workloads, rebooted); err != nil {
		n.logger.Error("looking for what outlived the last agent failed", "error", err)
	}
	if err := n.adopt(ctx, seen); err != nil {
		n.logger.Error("comparing with the control plane what the node knows failed; it is tried again", "error", err)
	}
}

// seen is what the node saw last; never nil.
func (n *Node) seen() (*state.Seen, error) {
	seen, err := n.cfg.State.Seen()
	if seen == nil {
		seen = &state.Seen{}
	}
	return seen, err
}

// adopt has the control plane adopt what it does not know.
func (n *Node) adopt(ctx context.Context, seen *state.Seen) error {
	known, err := n.knowledge(seen)
	if err != nil {
		return err
	}
	got, err := n.cfg.ControlPlane.Adopt(ctx, n.self.get(), known)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.adoption, n.waiting = got, seen.Waiting
	n.mu.Unlock()
	if got.Why != "" || len(got.Adopted)+len(got.Waiting) > 0 {
		n.logger.Warn(got.String())
	}
	waiting := maps.Clone(got.Waiting)
	maps.Copy(waiting, seen.Waiting)
	return n.cfg.State.PutSeen(&state.Seen{BootID: n.cfg.BootID, ControlPlane: got.ControlPlane, Index: got.Index, Standing: seen.Standing, Waiting: waiting})
}

// Adoption is what the control plane made of what the node knew when it started; nil: it was
// not asked yet.
func (n *Node) Adoption() *structs.Adoption {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.adoption
}

// knowledge is all that the node knows of the control plane's decisions.
func (n *Node) knowledge(seen *state.Seen) (*structs.NodeKnowledge, error) {
	allocs, broken, err := n.cfg.State.Allocations()
	if err != nil {
		return nil, fmt.Errorf("stored allocations: %w", err)
	}
	known := &structs.NodeKnowledge{ControlPlane: seen.ControlPlane, Index: seen.Index, Standing: seen.Standing}
	for _, a := range allocs {
		known.Allocations = append(known.Allocations, structs.KnownAllocation{Allocation: a, State: n.storedState(a)})
	}
	for id := range broken {
		known.Unreadable = append(known.Unreadable, id)
	}
	for _, s := range n.left.list {
		known.Found = append(known.Found, allocOf(s.ID))
	}
	return known, nil
}

// storedState is an allocation's state as far as it is stored and still true; nil: it cannot
// be read. A task of which no state is stored has not begun.
func (n *Node) storedState(a *structs.Allocation) *structs.AllocationState {
	stored, err := n.cfg.State.AllocationState(a.ID)
	group := a.Group()
	if err != nil || group == nil {
		return nil
	}
	s := &structs.AllocationState{ID: a.ID, TaskStates: map[string]*structs.TaskState{}}
	for _, t := range group.Tasks {
		local, ts, err := n.cfg.State.Task(a.ID, t.Name)
		if err != nil {
			return nil
		}
		if ts == nil {
			ts = &structs.TaskState{State: structs.TaskPending}
		}
		s.TaskStates[t.Name] = task.Restored(ts, local, n.left)
	}
	s.ClientStatus, s.ClientDescription = structs.ClientStatusOf(s.TaskStates)
	if s.ClientStatus == "" {
		s.ClientStatus = structs.ClientPending
	}
	if stored != nil {
		s.DeploymentStatus = stored.DeploymentStatus
		if stored.ClientStatus.Terminal() {
			s.ClientStatus, s.ClientDescription = stored.ClientStatus, stored.ClientDescription
		}
	}
	return s
}

// remember notes how much of the control plane's decisions the node has heard, and what of
// them is about itself.
func (n *Node) remember(news *structs.Assignments) {
	got := n.Adoption()
	if got == nil {
		return
	}
	if err := n.cfg.State.PutSeen(&state.Seen{
		BootID: n.cfg.BootID, ControlPlane: got.ControlPlane, Index: max(news.Index, got.Index), Standing: news.Standing, Waiting: n.waitingNow(),
	}); err != nil {
		n.logger.Error("what the node has heard of the control plane is not durable", "error", err)
	}
}
