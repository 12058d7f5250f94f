package node

import (
	"context"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/structs"
)

// registrar keeps the services that the control plane has registered of the node's allocations
// equal to those that their runners want, as [alloc.Services]. What comes while one change is
// under way goes into the next, together.
type registrar struct {
	plane  ServiceRegistry
	nodeID string
	logger hclog.Logger
	wake   wake.Signal // something is to be changed

	mu     sync.Mutex
	asked  bool // have is what the control plane has
	wanted map[structs.ServiceOwner]registrations
	have   map[structs.ServiceOwner]registrations
	dirty  map[structs.ServiceOwner]bool // wanted may differ from have
	done   map[structs.ServiceOwner][]chan struct{}
	busy   map[structs.ServiceOwner]bool // of the change that is under way
}

// registrations are an owner's, by ID. They are not changed.
type registrations map[string]*structs.ServiceRegistration

func newRegistrar(plane ServiceRegistry, nodeID string, logger hclog.Logger) *registrar {
	return &registrar{
		plane: plane, nodeID: nodeID, logger: logger, wake: wake.New(),
		wanted: map[structs.ServiceOwner]registrations{},
		have:   map[structs.ServiceOwner]registrations{},
		dirty:  map[structs.ServiceOwner]bool{},
		done:   map[structs.ServiceOwner][]chan struct{}{},
		busy:   map[structs.ServiceOwner]bool{},
	}
}

// Register makes a list all that an owner has registered. It does not wait.
func (r *registrar) Register(owner structs.ServiceOwner, services []*structs.ServiceRegistration) {
	list := registrations{}
	for _, s := range services {
		list[s.ID] = s
	}
	r.mu.Lock()
	if r.isSo(owner, list) {
		r.mu.Unlock()
		return
	}
	r.want(owner, list)
	r.mu.Unlock()
	r.wake.Set()
}

// isSo reports whether an owner is known to have nothing, and wants nothing: most tasks have no
// services.
func (r *registrar) isSo(owner structs.ServiceOwner, list registrations) bool {
	return r.asked && len(list) == 0 && len(r.have[owner]) == 0 && !r.busy[owner] && !r.dirty[owner]
}

func (r *registrar) want(owner structs.ServiceOwner, list registrations) {
	r.wanted[owner] = list
	r.dirty[owner] = true
}

// Deregister leaves an owner nothing, and returns when the control plane has taken that, or with
// ctx's error. It is done then as soon as it can be.
func (r *registrar) Deregister(ctx context.Context, owner structs.ServiceOwner) error {
	r.mu.Lock()
	if r.isSo(owner, nil) {
		r.mu.Unlock()
		return nil
	}
	done := make(chan struct{})
	r.want(owner, nil)
	r.done[owner] = append(r.done[owner], done)
	r.mu.Unlock()
	r.wake.Set()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run keeps the registrations until ctx is done, and then changes once more what is left. Those
// of allocations that the node does not have go.
func (r *registrar) run(ctx context.Context, has func(allocID string) bool) {
	found, err := retry(ctx, func() ([]*structs.ServiceRegistration, error) {
		return r.plane.RegisteredServices(ctx, r.nodeID)
	}, func(err error) {
		r.logger.Warn("asking for the registered services failed, trying again", "error", err)
	})
	if err != nil {
		return
	}
	gone := map[string]bool{}
	for _, s := range found {
		gone[s.AllocID] = !has(s.AllocID)
	}
	r.begin(found, gone)
	for {
		select {
		case <-r.wake.C():
			r.send(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
			defer cancel()
			r.send(last)
			return
		}
	}
}

// begin takes what the control plane has. Nothing is wanted of allocations that are gone.
func (r *registrar) begin(found []*structs.ServiceRegistration, gone map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = true
	for _, s := range found {
		owner := s.Owner()
		if r.have[owner] == nil {
			r.have[owner] = registrations{}
		}
		r.have[owner][s.ID] = s
	}
	for owner := range r.have {
		if _, known := r.wanted[owner]; !known && gone[owner.AllocID] {
			r.want(owner, nil)
		}
	}
	r.wake.Set()
}

// change is what is sent to the control plane at once.
type change struct {
	wanted map[structs.ServiceOwner]registrations
	put    []*structs.ServiceRegistration
	remove []string
	done   map[structs.ServiceOwner][]chan struct{}
}

// take returns what differs now; it is under way until it was applied or failed.
func (r *registrar) take() *change {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &change{wanted: map[structs.ServiceOwner]registrations{}, done: r.done}
	r.done = map[structs.ServiceOwner][]chan struct{}{}
	for owner := range r.dirty {
		wanted, have := r.wanted[owner], r.have[owner]
		for id, s := range wanted {
			if !s.Same(have[id]) {
				c.put = append(c.put, s)
			}
		}
		for id := range have {
			if wanted[id] == nil {
				c.remove = append(c.remove, id)
			}
		}
		c.wanted[owner], r.busy[owner] = wanted, true
	}
	clear(r.dirty)
	return c
}

// failed has a change made again, in its newest version.
func (r *registrar) failed(c *change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for owner := range c.wanted {
		r.dirty[owner] = true
		r.done[owner] = append(r.done[owner], c.done[owner]...)
	}
	clear(r.busy)
}

// applied keeps what the control plane has now. Of an owner that has and wants nothing, nothing
// is kept.
func (r *registrar) applied(c *change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for owner, list := range c.wanted {
		r.have[owner] = list
		if len(list) == 0 {
			delete(r.have, owner)
			if !r.dirty[owner] {
				delete(r.wanted, owner)
			}
		}
	}
	clear(r.busy)
	for _, waiting := range c.done {
		for _, done := range waiting {
			close(done)
		}
	}
}

// send changes what is to be changed, until that succeeds or ctx is done.
func (r *registrar) send(ctx context.Context) {
	_, _ = retry(ctx, func() (struct{}, error) {
		c := r.take()
		err := r.apply(ctx, c)
		if err != nil {
			r.failed(c)
			return struct{}{}, err
		}
		r.applied(c)
		return struct{}{}, nil
	}, func(err error) { r.logger.Warn("registering services failed, trying again", "error", err) })
}

func (r *registrar) apply(ctx context.Context, c *change) error {
	if len(c.remove) > 0 {
		if err := r.plane.DeregisterServices(ctx, r.nodeID, c.remove); err != nil {
			return err
		}
	}
	if len(c.put) > 0 {
		return r.plane.RegisterServices(ctx, r.nodeID, c.put)
	}
	return nil
}
