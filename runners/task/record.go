package task

import (
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// record keeps a task's state and makes it durable before others see it, so that what
// was reported of a task is never forgotten. Changes that come while one is being
// written are written together.
type record struct {
	// put writes a state, and what a run left if that is to be durable with it, or nil.
	put     func(*structs.TaskState, *state.TaskLocal) error
	changed func() // a new state can be seen
	logger  hclog.Logger

	mu     sync.Mutex
	state  *structs.TaskState // the newest
	seen   *structs.TaskState // the newest that is durable; never changed
	local  *state.TaskLocal   // to be written with the next state; nil: nothing is
	dirty  bool
	closed bool
	writer chan struct{} // closed when the running writer has ended; nil: none runs
}

// update changes the state under the record's lock. fn reports whether it did.
func (r *record) update(fn func(*structs.TaskState) bool) { r.updateWith(nil, fn) }

// updateWith is update, and makes what a run left durable in the same step, if fn changes
// anything; nil: nothing was left.
func (r *record) updateWith(local *state.TaskLocal, fn func(*structs.TaskState) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !fn(r.state) || r.closed {
		return
	}
	r.dirty = true
	if local != nil {
		r.local = local
	}
	if r.writer == nil {
		r.writer = make(chan struct{})
		go r.write(r.writer)
	}
}

// write writes until nothing is left to write.
func (r *record) write(done chan struct{}) {
	defer close(done)
	for {
		r.mu.Lock()
		if !r.dirty {
			r.writer = nil
			r.mu.Unlock()
			return
		}
		r.dirty = false
		s, local := r.state.Copy(), r.local
		r.local = nil
		r.mu.Unlock()
		// A store that fails must not make the node blind: the state is shown, and
		// the next change is the next try.
		if err := r.put(s, local); err != nil {
			r.logger.Error("task state is not durable", "error", err)
		}
		r.mu.Lock()
		r.seen = s
		r.mu.Unlock()
		r.changed()
	}
}

// drain waits until everything that changed before is durable and seen.
func (r *record) drain() {
	r.mu.Lock()
	writer := r.writer
	r.mu.Unlock()
	if writer != nil {
		<-writer
	}
}

// close waits like drain; what changes from now on is neither written nor shown.
func (r *record) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.drain()
}

// visible is the newest durable state. It must not be changed.
func (r *record) visible() *structs.TaskState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// reset replaces the state before anybody has seen one.
func (r *record) reset(s *structs.TaskState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.seen = s, s.Copy()
}
