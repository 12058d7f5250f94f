package node

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/structs"
)

// flushTimeout bounds the last report of a node that is shutting down.
const flushTimeout = 5 * time.Second

// reporter reports to the control plane what became of allocations. What comes while one
// report is under way goes into the next, together: nothing waits for a clock.
type reporter struct {
	plane  ControlPlane
	nodeID string
	logger hclog.Logger
	wake   wake.Signal // something is to be reported
	// endReported is called after a report of an allocation's end was taken. It must not
	// block.
	endReported func()

	mu      sync.Mutex
	latest  map[string]*structs.AllocationState // the newest of each
	acked   map[string]*structs.AllocationState // what the control plane has taken
	dirty   map[string]bool                     // what is to be reported
	sending map[string]bool                     // what the report under way has
}

func newReporter(plane ControlPlane, nodeID string, logger hclog.Logger, endReported func()) *reporter {
	return &reporter{
		plane: plane, nodeID: nodeID, logger: logger, endReported: endReported,
		wake:    wake.New(),
		latest:  map[string]*structs.AllocationState{},
		acked:   map[string]*structs.AllocationState{},
		dirty:   map[string]bool{},
		sending: map[string]bool{},
	}
}

// add takes an allocation's newest state. It does not block.
func (r *reporter) add(s *structs.AllocationState) {
	r.mu.Lock()
	r.latest[s.ID] = s
	r.dirty[s.ID] = true
	r.mu.Unlock()
	r.wake.Set()
}

// ended reports whether an allocation has ended here, whether the control plane knows
// it yet or not.
func (r *reporter) ended(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.latest[id]
	return s != nil && s.ClientStatus.Terminal()
}

// endKnown reports whether the control plane knows that an allocation has ended.
func (r *reporter) endKnown(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.acked[id]
	return s != nil && s.ClientStatus.Terminal()
}

// known returns the allocations of which there is a state.
func (r *reporter) known() (ids map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids = map[string]bool{}
	for id := range r.latest {
		ids[id] = true
	}
	return ids
}

// prune forgets those of some allocations that are not to be kept, once what is known of
// them was reported and taken, and takes them out of the set.
func (r *reporter) prune(ids map[string]bool, keep func(id string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range ids {
		if !r.dirty[id] && !r.sending[id] && !keep(id) {
			delete(r.latest, id)
			delete(r.acked, id)
			delete(ids, id)
		}
	}
}

// take returns what is to be reported now; what the control plane has already is not. The
// batch is under way until it is acknowledged or queued again.
func (r *reporter) take() []*structs.AllocationState {
	r.mu.Lock()
	defer r.mu.Unlock()
	var batch []*structs.AllocationState
	for id := range r.dirty {
		if s := r.latest[id]; !reflect.DeepEqual(r.acked[id], s) {
			batch = append(batch, s)
			r.sending[id] = true
		}
	}
	clear(r.dirty)
	return batch
}

// requeue has a report that failed reported again, in its newest version.
func (r *reporter) requeue(batch []*structs.AllocationState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range batch {
		r.dirty[s.ID] = true
	}
	clear(r.sending)
}

func (r *reporter) ack(batch []*structs.AllocationState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range batch {
		r.acked[s.ID] = s
	}
	clear(r.sending)
}

// run reports until ctx is done, and then once more what is left.
func (r *reporter) run(ctx context.Context) {
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

// send reports what is pending, until it succeeds or ctx is done.
func (r *reporter) send(ctx context.Context) {
	_, _ = retry(ctx, func() (struct{}, error) {
		batch := r.take()
		if len(batch) == 0 {
			return struct{}{}, nil
		}
		err := r.plane.UpdateAllocations(ctx, r.nodeID, batch)
		if err != nil {
			r.requeue(batch)
			return struct{}{}, err
		}
		r.ack(batch)
		if slices.ContainsFunc(batch, func(s *structs.AllocationState) bool { return s.ClientStatus.Terminal() }) {
			r.endReported()
		}
		return struct{}{}, nil
	}, func(err error) { r.logger.Warn("reporting allocations failed, trying again", "error", err) })
}
