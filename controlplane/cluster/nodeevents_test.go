package cluster

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/structs"
)

// told are the texts of the events that a server has of the node.
func (s *server) told() (texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		texts = append(texts, e.Message)
	}
	return texts
}

// happened is a node with events, one a second.
func happened(from, to int) *structs.Node {
	n := described()
	for i := from; i <= to; i++ {
		n.Events = append(n.Events, structs.NodeEvent{
			Time: time.Unix(int64(i), 0), Subsystem: "Plugin", Message: fmt.Sprint(i), Details: map[string]string{"file": "p.wasm"},
		})
	}
	return n
}

func TestServersAreToldOfTheNodesEventsOnce(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address)
	register := func(n *structs.Node) {
		_, err := cp.Register(t.Context(), n)
		require.NoError(t, err)
	}
	register(happened(1, 2))
	require.Equal(t, []string{"1", "2"}, s.told())
	first := s.events[0]
	require.Equal(t, "Plugin", first.Subsystem)
	require.Equal(t, map[string]string{"file": "p.wasm"}, first.Details)
	require.True(t, first.Timestamp.Equal(time.Unix(1, 0)))
	register(happened(1, 2))
	_, err := cp.Heartbeat(t.Context(), nodeID)
	require.NoError(t, err)
	require.Equal(t, 1, s.called("Node.EmitEvents"), "there is nothing new")
	register(happened(2, 4))
	require.Equal(t, []string{"1", "2", "3", "4"}, s.told())
}

func TestEventsAreKeptWhileServersDoNotTakeThem(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address)
	refuse := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fail["Node.EmitEvents"] = errors.New("No cluster leader")
	}
	for last := range 3 * structs.MaxNodeEvents {
		refuse()
		_, err := cp.Register(t.Context(), happened(max(1, last-2), last+1))
		require.NoError(t, err, "what cannot be told keeps no node from being registered")
	}
	require.Empty(t, s.told())
	_, err := cp.Heartbeat(t.Context(), nodeID)
	require.NoError(t, err)
	told := s.told()
	require.Len(t, told, structs.MaxNodeEvents, "the oldest are dropped")
	require.Equal(t, fmt.Sprint(3*structs.MaxNodeEvents), told[structs.MaxNodeEvents-1])
}

func TestEventsThatServersRefuseForGoodAreDropped(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address)
	refuse := func(method string, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fail[method] = err
	}
	beat := func() {
		_, err := cp.Heartbeat(t.Context(), nodeID)
		require.NoError(t, err)
	}
	refuse("Node.EmitEvents", wire.ErrNoMethod)
	_, err := cp.Register(t.Context(), happened(1, 2))
	require.NoError(t, err)
	refuse("Node.EmitEvents", wire.ErrNoMethod)
	beat()
	tries, looks := s.called("Node.EmitEvents"), s.called("Node.GetNode")
	beat()
	beat()
	require.Equal(t, tries, s.called("Node.EmitEvents"))
	require.Equal(t, looks, s.called("Node.GetNode"))
	_, err = cp.Register(t.Context(), happened(1, 3))
	require.NoError(t, err)
	require.Equal(t, []string{"3"}, s.told(), "what comes later is told")
}

// A server may have taken events and not been able to say so.
func TestEventsThatServersHaveAreNotToldAgain(t *testing.T) {
	s := startServer(t)
	var lost atomic.Bool
	first := make(chan *wire.Session, 1)
	address, joined := behind(t, func(method string, answer func() (any, error)) (any, error) {
		reply, err := answer()
		if method == "Node.EmitEvents" && !lost.Swap(true) {
			(<-first).HangUp()
		}
		return reply, err
	}, s)
	cp := join(t, address)
	first <- <-joined
	_, err := cp.Register(t.Context(), happened(1, 2))
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2"}, s.told())
	_, err = cp.Register(t.Context(), happened(1, 3)) // on another connection
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := cp.Heartbeat(t.Context(), nodeID)
		return err == nil && len(s.told()) > 2
	}, time.Minute, time.Millisecond)
	require.Equal(t, []string{"1", "2", "3"}, s.told())
}

// Servers keep ten events of a node: that all is well when an agent starts is not to push out what was not.
func TestWhatIsThereAndWellIsNoNews(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address)
	event := func(second int, message string, details map[string]string) structs.NodeEvent {
		return structs.NodeEvent{Time: time.Unix(int64(second), 0), Message: message, Details: details}
	}
	group := func(health structs.DeviceHealth) []*structs.DeviceGroup {
		return []*structs.DeviceGroup{{ID: structs.DeviceGroupID{Vendor: "v", Type: "t", Name: "n"}, Devices: []structs.Device{{ID: "1", Health: health}}}}
	}
	n := described()
	n.Drivers["broken"] = &structs.DriverInfo{Detected: true}
	n.Devices = group(structs.DeviceHealthy)
	n.Events = []structs.NodeEvent{
		event(1, "raw_exec: Healthy", map[string]string{"driver": "raw_exec"}),
		event(2, "broken: no", map[string]string{"driver": "broken"}),
		event(3, "1 healthy", map[string]string{"device": "v/t/n"}),
	}
	_, err := cp.Register(t.Context(), n)
	require.NoError(t, err)
	require.Equal(t, []string{"broken: no"}, s.told())

	next := described()
	next.Drivers["broken"] = &structs.DriverInfo{Detected: true, Healthy: true}
	next.Devices = group(structs.DeviceUnhealthy)
	next.Events = append(n.Events, event(4, "broken: Healthy", n.Events[1].Details), event(5, "1 unhealthy", n.Events[2].Details))
	_, err = cp.Register(t.Context(), next)
	require.NoError(t, err)
	require.Equal(t, []string{"broken: no", "broken: Healthy", "1 unhealthy"}, s.told())
}
