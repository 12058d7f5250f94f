package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/structs"
)

const (
	// maxEventText bounds what is told of a node's event, in bytes.
	maxEventText = 1024
	// eventsTimeout bounds the telling of them, which heartbeats wait for.
	eventsTimeout = 5 * time.Second
)

// wireNodeEvent is an event of a node as servers keep it.
type wireNodeEvent struct {
	Message, Subsystem string
	Details            map[string]string
	Timestamp          time.Time
}

// nodeEvents are those of the node that servers are to be told. Its methods may be called concurrently.
type nodeEvents struct {
	telling sync.Mutex // one at a time

	mu      sync.Mutex
	newest  structs.NodeEvent // of those that were taken
	pending []wireNodeEvent   // as many as servers keep, the oldest first
	unsure  bool              // servers may have them although that was not heard
	refusal string            // the servers' answer to the last try; empty: they had none, or took them
}

// take takes the events of a node that are newer than those that were taken before. Before is the node
// as servers know it; nil: they do not.
func (e *nodeEvents) take(before, n *structs.Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	from := 1 + slices.IndexFunc(n.Events, func(one structs.NodeEvent) bool { return sameEvent(one, e.newest) })
	for _, one := range n.Events[from:] {
		e.newest = one
		if isNews(before, n, one) {
			e.pending = append(e.pending, wireNodeEvent{
				Message:   strings.ToValidUTF8(one.Message[:min(len(one.Message), maxEventText)], ""),
				Subsystem: one.Subsystem, Details: one.Details, Timestamp: one.Time,
			})
		}
	}
	e.pending = e.pending[max(0, len(e.pending)-structs.MaxNodeEvents):]
}

func sameEvent(a, b structs.NodeEvent) bool {
	return a.Time.Equal(b.Time) && a.Subsystem == b.Subsystem && a.Message == b.Message
}

// isNews reports whether an event is worth one of the few places that servers have for a node's: that a
// driver or a device is there and well when the agent starts is none.
func isNews(before, n *structs.Node, e structs.NodeEvent) bool {
	driver, group := e.Details["driver"], e.Details["device"]
	switch {
	case driver != "" && (before == nil || before.Drivers[driver] == nil):
		d := n.Drivers[driver]
		return d == nil || !d.Healthy
	case group != "" && (before == nil || groupOf(before, group) == nil):
		g := groupOf(n, group)
		return g == nil || slices.ContainsFunc(g.Devices, func(d structs.Device) bool { return d.Health != structs.DeviceHealthy })
	}
	return true
}

func groupOf(n *structs.Node, name string) *structs.DeviceGroup {
	i := slices.IndexFunc(n.Devices, func(g *structs.DeviceGroup) bool { return g.ID.String() == name })
	if i < 0 {
		return nil
	}
	return n.Devices[i]
}

// toTell is what servers are to be told now, and whether they may have it.
func (e *nodeEvents) toTell() (pending []wireNodeEvent, unsure bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.pending), e.unsure
}

// told notes that servers have some, or may have.
func (e *nodeEvents) told(some []wireNodeEvent, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.unsure = err != nil; e.unsure {
		return
	}
	e.pending = slices.DeleteFunc(e.pending, func(one wireNodeEvent) bool { return slices.ContainsFunc(some, one.is) })
}

// refused notes how a try to tell some has ended, and reports whether it was answered as the one before: then
// they are refused for good, and dropped.
func (e *nodeEvents) refused(some []wireNodeEvent, err error) bool {
	answer := ""
	var remote *wire.RemoteError
	if errors.As(err, &remote) && !isAway(err) {
		answer = remote.Text
	}
	e.mu.Lock()
	again := answer != "" && answer == e.refusal
	e.refusal = answer
	e.mu.Unlock()
	if again {
		e.told(some, nil)
	}
	return again
}

func (e wireNodeEvent) is(other wireNodeEvent) bool {
	return e.Timestamp.Equal(other.Timestamp) && e.Subsystem == other.Subsystem && e.Message == other.Message
}

// tellEvents tells a server the node's events that it was not told. What cannot be told now is told with
// one of the next heartbeats, but for what is refused twice with the same answer. A server adds whatever
// it is told: where it may have been, it is asked first.
func (cp *ControlPlane) tellEvents(ctx context.Context, nodeID string) {
	cp.events.telling.Lock()
	defer cp.events.telling.Unlock()
	pending, unsure := cp.events.toTell()
	if len(pending) == 0 {
		return
	}
	err := error(nil)
	if unsure {
		var there []wireNodeEvent
		if there, err = cp.eventsThere(ctx, nodeID); err == nil {
			cp.events.told(there, nil)
			pending, _ = cp.events.toTell()
		}
	}
	if err == nil && len(pending) > 0 {
		err = cp.emit(ctx, nodeID, pending)
		cp.events.told(pending, err)
	}
	switch {
	case cp.events.refused(pending, err):
		cp.logger.Warn("the servers refuse the node's events, which are not told again", "events", len(pending), "error", err)
	case err != nil:
		cp.logger.Debug("telling the servers the node's events failed, trying again with a later heartbeat", "error", err)
	}
}

func (cp *ControlPlane) emit(ctx context.Context, nodeID string, events []wireNodeEvent) error {
	_, secret, err := cp.registered(nodeID)
	if err != nil {
		return err
	}
	return cp.servers.nowFor(ctx, eventsTimeout, "Node.EmitEvents", struct {
		request
		NodeEvents map[string][]wireNodeEvent
	}{cp.asNode(secret), map[string][]wireNodeEvent{nodeID: events}}, nil)
}

// eventsThere are the node's events that the servers have.
func (cp *ControlPlane) eventsThere(ctx context.Context, nodeID string) ([]wireNodeEvent, error) {
	q, err := cp.reading("")
	if err != nil {
		return nil, err
	}
	var got struct {
		Node *struct{ Events []wireNodeEvent }
	}
	err = cp.servers.nowFor(ctx, eventsTimeout, "Node.GetNode", struct {
		query
		NodeID string
	}{q, nodeID}, &got)
	if err != nil || got.Node == nil {
		return nil, err
	}
	return got.Node.Events, nil
}
