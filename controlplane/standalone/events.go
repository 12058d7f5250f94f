package standalone

import (
	"context"
	"sync"

	"github.com/wasmnode/wasmnode/structs"
)

// DefaultEventBuffer is how many batches of events are kept for those who come later, or read
// slowly, as in Nomad. A batch holds what was changed with one index.
const DefaultEventBuffer = 100

// events keeps the latest batches. Readers have no part in it but their place, so that the
// writer never waits for one, and what a slow one has not read costs nothing.
type events struct {
	mu      sync.Mutex
	batches []*structs.ChangeBatch // a ring: the batch of place p is at p modulo its length
	next    uint64                 // the place of the next batch
	changed chan struct{}          // closed and replaced when there is another
}

func newEvents(size int) *events {
	return &events{batches: make([]*structs.ChangeBatch, size), changed: make(chan struct{})}
}

// oldest is the place of the oldest batch that is kept.
func (e *events) oldest() uint64 {
	if size := uint64(len(e.batches)); e.next > size {
		return e.next - size
	}
	return 0
}

func (e *events) publish(list []*structs.ChangeBatch) {
	if len(list) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range list {
		e.batches[e.next%uint64(len(e.batches))] = b
		e.next++
	}
	close(e.changed)
	e.changed = make(chan struct{})
}

// EventsFrom is the place of the first batch that is kept whose index is at least index, or
// else of the next that there will be. The buffer begins anew when the control plane opens.
func (cp *ControlPlane) EventsFrom(index uint64) (place uint64) {
	e := cp.events
	e.mu.Lock()
	defer e.mu.Unlock()
	for place = e.oldest(); place < e.next; place++ {
		if e.batches[place%uint64(len(e.batches))].Index >= index {
			break
		}
	}
	return place
}

// NextEvents returns the batch at a place, once there is one. The errors are
// structs.ErrEventsLost, where it is kept no more, errdefs.Unavailable when the control plane
// closes, and ctx's. What it returns was committed, in the order of the indexes.
func (cp *ControlPlane) NextEvents(ctx context.Context, place uint64) (*structs.ChangeBatch, error) {
	e := cp.events
	for {
		e.mu.Lock()
		changed := e.changed
		switch {
		case place < e.oldest():
			e.mu.Unlock()
			return nil, structs.ErrEventsLost
		case place < e.next:
			b := e.batches[place%uint64(len(e.batches))]
			e.mu.Unlock()
			return b, nil
		}
		e.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-cp.stop:
			return nil, errClosed
		}
	}
}
