package cluster

import (
	"context"
	"time"

	"github.com/wasmnode/wasmnode/structs"
)

// reportInterval is the least time between two reports: what comes meanwhile goes together.
const reportInterval = 200 * time.Millisecond

// wireState is what an allocation has become, as servers merge it into theirs.
type wireState struct {
	ID, NodeID                      string
	ClientStatus, ClientDescription string
	TaskStates                      map[string]*wireTaskState
	DeploymentStatus                *wireHealth
	NetworkStatus                   *wireNetworkStatus
}

type wireTaskState struct {
	State                              string
	Failed                             bool
	Restarts                           uint64
	LastRestart, StartedAt, FinishedAt time.Time
	Events                             []*wireEvent
}

type wireEvent struct {
	Type                    string
	Time                    int64
	DisplayMessage, Message string
	Details                 map[string]string
	FailsTask               bool
}

type wireHealth struct {
	Healthy   *bool
	Timestamp time.Time
	Canary    bool
}

type wireNetworkStatus struct{ InterfaceName, Address, AddressIPv6 string }

// UpdateAllocations implements node.ControlPlane. States of what the servers have forgotten
// are kept to themselves.
func (cp *ControlPlane) UpdateAllocations(ctx context.Context, nodeID string, states []*structs.AllocationState) error {
	if _, _, err := cp.registered(nodeID); err != nil {
		return err
	}
	if len(states) == 0 {
		return nil
	}
	select {
	case <-cp.pulled.asked:
	case <-ctx.Done():
		return ctx.Err()
	}
	cp.sending.Lock()
	defer cp.sending.Unlock()
	select {
	case <-time.After(time.Until(cp.lastSent.Add(reportInterval))):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := cp.send(ctx, nodeID, cp.statesOf(nodeID, states)); err != nil {
		return err
	}
	cp.lastSent = time.Now()
	cp.mu.Lock()
	for _, s := range states {
		if k := cp.pulled.known[s.ID]; k != nil {
			k.reported, k.told = s, true
			if k.gone() {
				cp.wake.Set()
			}
		}
	}
	cp.mu.Unlock()
	return nil
}

// tellAgain reports all that was reported before, and never after what is newer.
func (cp *ControlPlane) tellAgain(ctx context.Context, nodeID string) error {
	cp.sending.Lock()
	defer cp.sending.Unlock()
	cp.mu.Lock()
	var states []*structs.AllocationState
	for _, k := range cp.pulled.known {
		if k.reported != nil && k.modified > 0 {
			states = append(states, k.reported)
		}
	}
	cp.mu.Unlock()
	return cp.send(ctx, nodeID, cp.statesOf(nodeID, states))
}

func (cp *ControlPlane) send(ctx context.Context, nodeID string, list []*wireState) error {
	if len(list) == 0 {
		return nil
	}
	_, secret, err := cp.registered(nodeID)
	if err != nil {
		return err
	}
	return cp.servers.call(ctx, "Node.UpdateAlloc", struct {
		request
		Alloc []*wireState
	}{cp.asNode(secret), list}, nil)
}

// refuse reports an allocation that cannot be run here as failed. One that the node has goes on
// as it is, so that it is not replaced while it runs; that it is to be stopped is taken even so.
func (cp *ControlPlane) refuse(ctx context.Context, nodeID string, w *wireAlloc, modified uint64, why error) (stopped *structs.Allocation) {
	cp.logger.Error("an allocation that a server has sent is refused", "alloc_id", w.ID, "error", why)
	cp.mu.Lock()
	k := cp.pulled.known[w.ID]
	if k == nil {
		cp.pulled.refused[w.ID] = modified
	} else {
		k.modified, k.vanished = modified, false
		if to := structs.DesiredStatus(w.DesiredStatus); to == structs.DesiredStop || to == structs.DesiredEvict {
			a := *k.alloc
			a.DesiredStatus, a.DesiredDescription, a.AllocModifyIndex = to, w.DesiredDescription, max(modified, a.AllocModifyIndex+1)
			k.alloc, stopped = &a, &a
		}
	}
	cp.mu.Unlock()
	if k != nil || w.NodeID != nodeID || structs.ClientStatus(w.ClientStatus).Terminal() {
		return stopped
	}
	if err := cp.send(ctx, nodeID, []*wireState{{
		ID: w.ID, NodeID: nodeID, ClientStatus: string(structs.ClientFailed), ClientDescription: "refused by the node: " + why.Error(),
	}}); err != nil {
		cp.logger.Warn("reporting a refused allocation failed", "alloc_id", w.ID, "error", err)
	}
	return nil
}

// statesOf are the states for servers, without those that they have forgotten.
func (cp *ControlPlane) statesOf(nodeID string, states []*structs.AllocationState) (list []*wireState) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	for _, s := range states {
		k := cp.pulled.known[s.ID]
		if k == nil || k.vanished {
			continue
		}
		list = append(list, stateOf(nodeID, k.alloc.DeploymentID, s))
	}
	return list
}

// stateOf is a state for servers. Health that was decided for another deployment is not told.
func stateOf(nodeID, deployment string, s *structs.AllocationState) *wireState {
	w := &wireState{
		ID: s.ID, NodeID: nodeID, ClientStatus: string(s.ClientStatus), ClientDescription: s.ClientDescription,
		TaskStates: map[string]*wireTaskState{},
	}
	for name, t := range s.TaskStates {
		w.TaskStates[name] = taskStateOf(t)
	}
	if d := s.DeploymentStatus; d != nil && d.Healthy != nil && d.DeploymentID == deployment {
		w.DeploymentStatus = &wireHealth{d.Healthy, d.Timestamp, d.Canary}
	}
	if n := s.Network; n != nil {
		w.NetworkStatus = &wireNetworkStatus{n.Interface, n.Address, n.AddressIPv6}
	}
	return w
}

func taskStateOf(t *structs.TaskState) *wireTaskState {
	w := &wireTaskState{
		State: string(t.State), Failed: t.Failed, Restarts: t.Restarts,
		LastRestart: t.LastRestart, StartedAt: t.StartedAt, FinishedAt: t.FinishedAt,
	}
	for _, e := range t.Events {
		w.Events = append(w.Events, &wireEvent{e.Type, e.Time, e.DisplayMessage, e.Message, e.Details, e.FailsTask})
	}
	return w
}
