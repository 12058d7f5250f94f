package node

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/wasmnode/wasmnode/structs"
)

// self is what the node knows of itself, and whether the control plane knows it too.
type self struct {
	mu      sync.Mutex
	node    *structs.Node // immutable; replaced at each change
	settled bool          // the first drivers have answered
	early   map[string]*structs.DriverInfo
	changed chan struct{} // capacity 1: a reminder, not a queue
}

func newSelf(n *structs.Node) *self {
	return &self{node: n, early: map[string]*structs.DriverInfo{}, changed: make(chan struct{}, 1)}
}

func (s *self) get() *structs.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.node
}

// updateDriver merges a driver's state. Before the node has settled it is only
// remembered, so that the first registration has all that there is.
func (s *self) updateDriver(name string, info *structs.DriverInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.settled {
		s.early[name] = info
		return
	}
	next := s.node.Copy()
	if mergeDriver(next, name, info) {
		s.node = next
		remind(s.changed)
	}
}

// settle applies what was remembered.
func (s *self) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.node.Copy()
	for name, info := range s.early {
		mergeDriver(next, name, info)
	}
	next.Status, next.Eligibility = structs.NodeReady, structs.NodeEligible
	s.node, s.settled, s.early = next, true, nil
}

// remind leaves a reminder in a channel of capacity 1.
func remind(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// mergeDriver puts a driver's state into a node and reports whether it is another.
func mergeDriver(n *structs.Node, name string, info *structs.DriverInfo) bool {
	old := n.Drivers[name]
	switch {
	case old == nil && info == nil:
		return false
	case old != nil && info != nil && old.Same(info):
		return false
	}
	if old != nil {
		for key := range old.Attributes {
			delete(n.Attributes, key)
		}
	}
	detected := "driver." + name
	delete(n.Attributes, detected)
	if info == nil {
		delete(n.Drivers, name)
		addNodeEvent(n, name, "Driver removed")
		return true
	}
	if n.Drivers == nil {
		n.Drivers = map[string]*structs.DriverInfo{}
	}
	n.Drivers[name] = info
	for key, value := range info.Attributes {
		if value != "" {
			n.Attributes[key] = value
		}
	}
	if info.Detected {
		n.Attributes[detected] = "1"
	}
	if changed := old == nil || old.Healthy != info.Healthy || old.HealthDescription != info.HealthDescription; changed && info.HealthDescription != "" {
		addNodeEvent(n, name, info.HealthDescription)
	}
	return true
}

// addNodeEvent records a driver's event, dropping the oldest past the bound.
func addNodeEvent(n *structs.Node, driver, message string) {
	n.Events = append(n.Events, structs.NodeEvent{
		Time: time.Now().UTC(), Subsystem: "Driver", Message: message, Details: map[string]string{"driver": driver},
	})
	if over := len(n.Events) - structs.MaxNodeEvents; over > 0 {
		n.Events = n.Events[over:]
	}
}

// register makes the node known, however long that takes.
func (n *Node) register(ctx context.Context) error {
	_, err := retry(ctx, func() (time.Duration, error) {
		return n.cfg.ControlPlane.Register(ctx, n.self.get())
	}, func(err error) { n.logger.Warn("registering the node failed, trying again", "error", err) })
	return err
}

// registerLoop tells the control plane of changes, and that the node is alive.
func (n *Node) registerLoop(ctx context.Context) {
	var beat <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.self.changed:
		case <-beat:
		}
		ttl, err := retry(ctx, func() (time.Duration, error) {
			return n.cfg.ControlPlane.Register(ctx, n.self.get())
		}, func(err error) { n.logger.Warn("registering the node failed, trying again", "error", err) })
		if err != nil {
			return
		}
		if beat = nil; ttl > 0 {
			beat = time.After(ttl / 2)
		}
	}
}

// Bounds of the wait between two tries of the same thing.
const (
	firstRetry = 250 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// retry tries until it succeeds or ctx is done.
func retry[T any](ctx context.Context, try func() (T, error), failed func(error)) (T, error) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = firstRetry, lastRetry
	return backoff.Retry(ctx, try, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, _ time.Duration) { failed(err) }))
}
