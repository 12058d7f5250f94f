package catalog

import (
	"context"
	"slices"
	"sync"
)

// Announceable is a state that an [Announcer] reports; its zero value means that there is
// none any more.
type Announceable[T any] interface {
	comparable
	Same(o T) bool
	Copy() T
}

// Announcer reports states to an updater, each under a name: one at a time, with no lock
// held, and only what differs from what was reported before. Callers only name whose state may
// have changed: what is reported is the state at the time of the report, so that it does not
// matter which caller comes first.
type Announcer[T Announceable[T]] struct {
	state  func(name string) T // as it is now
	update func(name string, state T)

	mu        sync.Mutex
	cond      *sync.Cond
	changed   []string     // names to report, in order; each once
	reported  map[string]T // as reported last; only the Announcer's goroutine
	reporting bool
	stopped   bool
	ended     chan struct{} // closed when run has returned
}

// NewAnnouncer returns an announcer that runs until it is stopped. Update may be nil.
func NewAnnouncer[T Announceable[T]](state func(name string) T, update func(name string, state T)) *Announcer[T] {
	if update == nil {
		update = func(string, T) {}
	}
	a := &Announcer[T]{state: state, update: update, reported: map[string]T{}, ended: make(chan struct{})}
	a.cond = sync.NewCond(&a.mu)
	go a.run()
	return a
}

// Changed has a name's state reported if it has changed. It does not block.
func (a *Announcer[T]) Changed(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.changed, name) {
		a.changed = append(a.changed, name)
	}
	a.cond.Broadcast()
}

// run reports until Stop.
func (a *Announcer[T]) run() {
	defer close(a.ended)
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		for len(a.changed) == 0 && !a.stopped {
			a.cond.Wait()
		}
		if a.stopped {
			return
		}
		name := a.changed[0]
		a.changed = a.changed[1:]
		a.reporting = true
		a.mu.Unlock()
		a.report(name)
		a.mu.Lock()
		a.reporting = false
		a.cond.Broadcast()
	}
}

// report reports a name's state if it is not the one reported last.
func (a *Announcer[T]) report(name string) {
	var none T
	state := a.state(name)
	before, known := a.reported[name]
	switch {
	case state == none && !known, state != none && known && state.Same(before):
		return
	case state == none:
		delete(a.reported, name)
	default:
		a.reported[name] = state
	}
	a.update(name, state.Copy())
}

// Flush returns when all changes have been reported, or ctx's error.
func (a *Announcer[T]) Flush(ctx context.Context) error {
	wake := context.AfterFunc(ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.cond.Broadcast()
	})
	defer wake()
	a.mu.Lock()
	defer a.mu.Unlock()
	for (len(a.changed) > 0 || a.reporting) && !a.stopped && ctx.Err() == nil {
		a.cond.Wait()
	}
	return ctx.Err()
}

// Stop ends reporting and returns when it has ended. It may be called more than once.
func (a *Announcer[T]) Stop() {
	a.mu.Lock()
	a.stopped = true
	a.cond.Broadcast()
	a.mu.Unlock()
	<-a.ended
}
