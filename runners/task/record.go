package task

import (
	"sync"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// status is what is known of the task and asked of it. The runner's goroutine shares it
// with all callers, under the record's mutex: a request and the event that reports it
// are one step.
type status struct {
	state *structs.TaskState // the newest
	// alloc and task are as the control plane sent them last. Read-only.
	alloc *structs.Allocation
	task  *nomad.Task
	// run is the run that there is now, nil: none. It alone has the newest handle.
	run *invocation

	restart  *RestartRequest // pending; nil: none
	delaying bool            // waiting before a restart
	killing  bool            // the Killing event was emitted
	killErr  error           // what was wrong with the kill
	final    bool            // no restart is possible any more
	held     string          // why a found run is not taken back; empty: none is held
}

// record keeps a task's status, and makes its state durable before others see it, so
// that what was reported of a task is never forgotten. Changes that come while one is
// being written are written together.
type record struct {
	// put writes a state, and what a run left if that is to be durable with it, or nil.
	put     func(*structs.TaskState, *state.TaskLocal) error
	changed func() // a new state can be seen
	logger  hclog.Logger

	mu sync.Mutex // guards all that follows; no other lock is taken under it
	status
	seen   *structs.TaskState // the newest that is durable; never changed
	failed error              // why the newest is not durable; nil: it is
	local  *state.TaskLocal   // to be written with the next state; nil: nothing is
	dirty  bool
	closed bool
	writer chan struct{} // closed when the running writer has ended; nil: none runs
}

// update changes the status under the record's lock. fn reports whether it changed the
// state.
func (r *record) update(fn func(*status) bool) { r.updateWith(nil, fn) }

// updateWith is update, and makes what a run left durable in the same step, if fn changes
// the state; nil: nothing was left.
func (r *record) updateWith(local *state.TaskLocal, fn func(*status) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !fn(&r.status) || r.closed {
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

// locked reads or changes the status under the record's lock; a change is nothing to
// report.
func (r *record) locked(fn func(*status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fn(&r.status)
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
		err := r.put(s, local)
		if err != nil {
			r.logger.Error("task state is not durable", "error", err)
		}
		r.mu.Lock()
		r.seen, r.failed = s, err
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

// flush is drain, and tries once more to make durable what is not.
func (r *record) flush() error {
	r.drain()
	failed := func() (err error) {
		r.locked(func(*status) { err = r.failed })
		return err
	}
	if failed() == nil {
		return nil
	}
	r.update(func(*status) bool { return true })
	r.drain()
	return failed()
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
