package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/structs"
)

// self is what the node knows of itself, and whether the control plane knows it too.
type self struct {
	changed wake.Signal // the control plane is to be updated

	mu         sync.Mutex
	node       *structs.Node // immutable; replaced at each change
	known      *structs.Node // what the control plane knows; nil: nothing yet
	registered chan struct{} // closed and replaced when known is another
}

// newSelf returns a node that is not ready yet.
func newSelf(n *structs.Node) *self {
	n.Status, n.Eligibility = structs.NodeInitializing, structs.NodeEligible
	return &self{node: n, changed: wake.New(), registered: make(chan struct{})}
}

func (s *self) get() *structs.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.node
}

// update changes a copy of the node, which takes the node's place if change reports that
// it is another.
func (s *self) update(change func(next *structs.Node) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.node.Copy()
	if change(next) {
		s.node = next
		s.changed.Set()
	}
}

// updateDriver merges a driver's state.
func (s *self) updateDriver(name string, info *structs.DriverInfo) {
	s.update(func(next *structs.Node) bool { return mergeDriver(next, name, info) })
}

// updateLoading notes which files' plugins are not there yet.
func (s *self) updateLoading(files func() []string) {
	s.update(func(next *structs.Node) bool {
		before := next.LoadingPlugins
		next.LoadingPlugins = files()
		return !slices.Equal(before, next.LoadingPlugins)
	})
}

// markReady has the control plane place allocations here.
func (s *self) markReady() {
	s.update(func(next *structs.Node) bool {
		next.Status = structs.NodeReady
		return true
	})
}

// setKnown records what the control plane knows.
func (s *self) setKnown(n *structs.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = n
	close(s.registered)
	s.registered = make(chan struct{})
}

// awaitKnown returns when the control plane knows all that the node knows of itself, or
// ctx's error.
func (s *self) awaitKnown(ctx context.Context) error {
	for {
		s.mu.Lock()
		same, registered := s.known == s.node, s.registered
		s.mu.Unlock()
		if same {
			return nil
		}
		select {
		case <-registered:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// refusePlugin records an event about a plugin's file.
func (s *self) refusePlugin(file, why string) {
	s.update(func(next *structs.Node) bool {
		addNodeEvent(next, structs.NodeEvent{
			Time: time.Now().UTC(), Subsystem: "Plugin", Message: fmt.Sprintf("Plugin %s not taken: %s", file, why), Details: map[string]string{"file": file},
		})
		return true
	})
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
			delete(n.Attributes, driverAttribute(name, key))
		}
	}
	detected := "driver." + name
	delete(n.Attributes, detected)
	if info == nil {
		delete(n.Drivers, name)
		addDriverEvent(n, name, "Driver removed")
		return true
	}
	if n.Drivers == nil {
		n.Drivers = map[string]*structs.DriverInfo{}
	}
	n.Drivers[name] = info
	for key, value := range info.Attributes {
		if value != "" && key != detected { // whether it is detected, only the node says
			n.Attributes[driverAttribute(name, key)] = value
		}
	}
	if info.Detected {
		n.Attributes[detected] = "1"
	}
	if changed := old == nil || old.Healthy != info.Healthy || old.HealthDescription != info.HealthDescription; changed && info.HealthDescription != "" {
		addDriverEvent(n, name, info.HealthDescription)
	}
	return true
}

// driverAttribute is where a driver's attribute goes among the node's: below the
// driver's own name, so that no driver can set an attribute of the kernel or another driver.
func driverAttribute(driver, key string) string {
	prefix := "driver." + driver + "."
	return prefix + strings.TrimPrefix(key, prefix)
}

func addDriverEvent(n *structs.Node, driver, message string) {
	addNodeEvent(n, structs.NodeEvent{
		Time: time.Now().UTC(), Subsystem: "Driver", Message: message, Details: map[string]string{"driver": driver},
	})
}

// addNodeEvent records an event, dropping the oldest past the bound.
func addNodeEvent(n *structs.Node, e structs.NodeEvent) {
	n.Events = append(n.Events, e)
	if over := len(n.Events) - structs.MaxNodeEvents; over > 0 {
		n.Events = n.Events[over:]
	}
}

// register makes the node known, or its changes, however long that takes.
func (n *Node) register(ctx context.Context) (ttl time.Duration, err error) {
	told := ""
	return retry(ctx, func() (time.Duration, error) {
		now := n.self.get()
		ttl, err := n.cfg.ControlPlane.Register(ctx, now)
		if err == nil {
			n.self.setKnown(now)
		}
		return ttl, err
	}, func(err error) {
		if told != err.Error() { // which may last for days
			told = err.Error()
			n.logger.Warn("registering the node failed, trying again", "error", err)
		}
	})
}

// registerLoop makes the node known, and then informs the control plane of changes and that
// the node is alive.
func (n *Node) registerLoop(ctx context.Context) {
	ttl, err := n.register(ctx)
	for err == nil {
		known, lasts := time.Now(), ttl
		var heartbeat <-chan time.Time
		if ttl > 0 {
			n.heard.now(ttl)
			heartbeat = time.After(ttl / 2)
		}
		select {
		case <-ctx.Done():
			return
		case <-n.self.changed.C():
			ttl, err = n.register(ctx)
		case <-heartbeat:
			if ttl, err = n.cfg.ControlPlane.Heartbeat(ctx, n.ID()); err != nil {
				n.logger.Warn("the heartbeat failed, registering again", "error", err)
				ttl, err = n.register(ctx)
			}
		}
		if err == nil && lasts > 0 && time.Since(known) > lasts {
			n.logger.Info("the control plane is reachable again")
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
