package node

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/structs"
)

// flushTimeout bounds the last report of a node that is shutting down.
const flushTimeout = 5 * time.Second

// reporter tells the control plane what became of allocations. What comes while one
// report is under way goes into the next, together: nothing waits for a clock.
type reporter struct {
	plane  ControlPlane
	nodeID string
	logger hclog.Logger
	wake   chan struct{} // capacity 1: a reminder, not a queue

	mu      sync.Mutex
	pending map[string]*structs.AllocationState // the newest of each
	acked   map[string]*structs.AllocationState // what the control plane has taken
}

func newReporter(plane ControlPlane, nodeID string, logger hclog.Logger) *reporter {
	return &reporter{
		plane: plane, nodeID: nodeID, logger: logger,
		wake:    make(chan struct{}, 1),
		pending: map[string]*structs.AllocationState{},
		acked:   map[string]*structs.AllocationState{},
	}
}

// add takes an allocation's newest state. It does not block.
func (r *reporter) add(s *structs.AllocationState) {
	r.mu.Lock()
	r.pending[s.ID] = s
	r.mu.Unlock()
	remind(r.wake)
}

// forget drops what is kept of an allocation that is gone.
func (r *reporter) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.acked, id)
}

// take returns what is to be reported now; what the control plane has already is not.
func (r *reporter) take() []*structs.AllocationState {
	r.mu.Lock()
	defer r.mu.Unlock()
	var batch []*structs.AllocationState
	for id, s := range r.pending {
		if !reflect.DeepEqual(r.acked[id], s) {
			batch = append(batch, s)
		}
	}
	clear(r.pending)
	return batch
}

// putBack returns a report that failed, unless something newer has come.
func (r *reporter) putBack(batch []*structs.AllocationState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range batch {
		if r.pending[s.ID] == nil {
			r.pending[s.ID] = s
		}
	}
}

func (r *reporter) ack(batch []*structs.AllocationState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range batch {
		r.acked[s.ID] = s
	}
}

// run reports until ctx is done, and then once more what is left.
func (r *reporter) run(ctx context.Context) {
	for {
		select {
		case <-r.wake:
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
			r.putBack(batch)
			return struct{}{}, err
		}
		r.ack(batch)
		return struct{}{}, nil
	}, func(err error) { r.logger.Warn("reporting allocations failed, trying again", "error", err) })
}
