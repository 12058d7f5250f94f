package stream

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/sandbox"
)

// The bounds of streams.
const (
	// PerCall is how many one call may have open: few need many.
	PerCall = 256
	// PerPlugin is how many all calls of a plugin may have open: thousands of tasks can be
	// waited for at once, a call each.
	PerPlugin = 4096
	// PipeBytes is how much waits in a stream, each way: then its sender waits. It is also the
	// most that one read or write moves.
	PipeBytes = 32 << 10
	// PollEntries is how many streams one poll is about.
	PollEntries = PerCall

	// flushTime is for how long the end of a call waits until what was written to streams
	// that the guest has closed is sent.
	flushTime = time.Second
	// bytes is what a stream takes of its plugin's memory.
	bytes = 2 * PipeBytes
)

// Owner is the plugin whose calls have streams: it bounds and counts those of all of them.
// It is safe for concurrent use. Copies are not.
type Owner struct {
	budget *sandbox.Budget

	last          atomic.Uint32 // the ID given last: a guest's code may know one of an earlier call
	open          atomic.Int64
	read, written atomic.Uint64
}

// NewOwner returns an owner without streams, whose memory is of that budget.
func NewOwner(budget *sandbox.Budget) *Owner { return &Owner{budget: budget} }

// Open returns how many streams are open now, in all calls.
func (o *Owner) Open() int { return int(o.open.Load()) }

// Read and Written return how many bytes the plugin has read and written.
func (o *Owner) Read() uint64 { return o.read.Load() }

// Written is described at [Owner.Read].
func (o *Owner) Written() uint64 { return o.written.Load() }

// take makes room for one more stream.
func (o *Owner) take() error {
	if o.open.Add(1) > PerPlugin {
		o.open.Add(-1)
		return abi.NewRecoverableError(abi.ResourceExhausted, fmt.Sprintf("the plugin has %d streams open, which is the limit", PerPlugin))
	}
	if !o.budget.TakeMemory(bytes) {
		o.open.Add(-1)
		return abi.NewRecoverableError(abi.ResourceExhausted, "the plugin has no memory left for another stream")
	}
	return nil
}

func (o *Owner) give() {
	o.budget.GiveMemory(bytes)
	o.open.Add(-1)
}

// Table is the streams of one call. Its methods with a context are the guest's and for one
// goroutine at a time: they return early when the context ends.
type Table struct {
	owner   *Owner
	changed wake.Signal // a stream has changed; the guest's goroutine receives

	lingering sync.WaitGroup // for the streams that are closing

	mu      sync.Mutex
	streams map[uint32]*Stream   // those that the guest has
	closing map[*Stream]struct{} // those that it has closed, and that are not at their end
}

// NewTable returns the empty table of a call of that owner's.
func NewTable(o *Owner) *Table {
	return &Table{owner: o, changed: wake.New(), streams: map[uint32]*Stream{}, closing: map[*Stream]struct{}{}}
}

// Open takes a place for a stream, which is then connected or closed.
//
// # Errors
//
// RESOURCE_EXHAUSTED: as many are open as may be.
func (t *Table) Open() (*Stream, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.streams)+len(t.closing) >= PerCall {
		return nil, abi.NewRecoverableError(abi.ResourceExhausted, fmt.Sprintf("the call has %d streams open, which is the limit: close one", PerCall))
	}
	if err := t.owner.take(); err != nil {
		return nil, err
	}
	s := &Stream{ID: t.owner.last.Add(1), table: t, blocking: true}
	s.in.wake, s.out.wake = wake.New(), wake.New()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	t.streams[s.ID] = s
	return s, nil
}

// find returns an open stream. The lock is held.
func (t *Table) find(id uint32) (*Stream, error) {
	s := t.streams[id]
	if s == nil {
		return nil, abi.NewError(abi.NotFound, fmt.Sprintf("stream %d is not open in this call", id))
	}
	return s, nil
}

// wait calls ready, under the lock, now and after every change until it reports true, the
// time is over (below 0: never) or the context ends; it reports what ready did last.
func (t *Table) wait(ctx context.Context, timeout time.Duration, ready func() bool) bool {
	look := func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		return ready()
	}
	if look() || timeout == 0 {
		return true
	}
	defer sandbox.Pause(ctx)()
	var over <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		over = timer.C
	}
	for {
		select {
		case <-t.changed.C():
			if look() {
				return true
			}
		case <-over:
			return look()
		case <-ctx.Done():
			return false
		}
	}
}

// End ends all streams and waits until nothing works for them. With flush, what was written
// to sinks is handed on before, and what was written to those that the guest has closed is
// sent, for a second at most; both until the context ends.
func (t *Table) End(ctx context.Context, flush bool) {
	t.mu.Lock()
	n := len(t.streams) + len(t.closing)
	t.mu.Unlock()
	if n == 0 {
		return
	}
	if flush {
		t.drainSinks(ctx)
		t.wait(ctx, flushTime, func() bool { return len(t.closing) == 0 })
	}
	t.mu.Lock()
	all := make([]*Stream, 0, n)
	for _, s := range t.streams {
		all = append(all, s)
	}
	for s := range t.closing {
		all = append(all, s)
	}
	clear(t.streams)
	t.mu.Unlock()
	for _, s := range all {
		s.cut()
	}
	for _, s := range all {
		s.work.Wait()
		s.release()
	}
	t.lingering.Wait()
}

// drainSinks waits until what was written to sinks is handed on, closed ones included.
func (t *Table) drainSinks(ctx context.Context) {
	t.mu.Lock()
	var drained []<-chan struct{}
	for _, s := range t.streams {
		if s.sink {
			s.shut()
			drained = append(drained, s.drained)
		}
	}
	for s := range t.closing {
		if s.sink {
			drained = append(drained, s.drained)
		}
	}
	t.mu.Unlock()
	for _, d := range drained {
		select {
		case <-d:
		case <-ctx.Done():
		}
	}
}
