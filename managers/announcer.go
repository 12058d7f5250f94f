package managers

import (
	"context"
	"slices"
	"sync"
)

// announced is a state that an [announcer] tells; its zero value says that there is
// none any more.
type announced[T any] interface {
	comparable
	Same(o T) bool
	Copy() T
}

// announcer tells an updater of states, each under a name: one at a time, with no lock
// held, and only what differs from what was told before. It is only said whose state may
// have changed: what is told is the state at the time of telling, so that it does not
// matter who says so first.
type announcer[T announced[T]] struct {
	state  func(name string) T // as it is now
	update func(name string, state T)

	mu      sync.Mutex
	cond    *sync.Cond
	changed []string     // names to tell of, the first said first; each once
	told    map[string]T // as told last; only the announcer's goroutine
	telling bool
	stopped bool
}

func (a *announcer[T]) init(state func(string) T, update func(string, T)) {
	if update == nil {
		update = func(string, T) {}
	}
	a.state, a.update = state, update
	a.cond = sync.NewCond(&a.mu)
	a.told = map[string]T{}
}

// say has a name's state told if it has changed. It does not block.
func (a *announcer[T]) say(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.changed, name) {
		a.changed = append(a.changed, name)
	}
	a.cond.Broadcast()
}

// run tells until stop.
func (a *announcer[T]) run() {
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
		a.telling = true
		a.mu.Unlock()
		a.tell(name)
		a.mu.Lock()
		a.telling = false
		a.cond.Broadcast()
	}
}

// tell tells a name's state if it is not the one told last.
func (a *announcer[T]) tell(name string) {
	var none T
	state := a.state(name)
	before, known := a.told[name]
	switch {
	case state == none && !known, state != none && known && state.Same(before):
		return
	case state == none:
		delete(a.told, name)
	default:
		a.told[name] = state
	}
	a.update(name, state.Copy())
}

// flush returns when all that was said has been told, or ctx's error.
func (a *announcer[T]) flush(ctx context.Context) error {
	wake := context.AfterFunc(ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.cond.Broadcast()
	})
	defer wake()
	a.mu.Lock()
	defer a.mu.Unlock()
	for (len(a.changed) > 0 || a.telling) && !a.stopped && ctx.Err() == nil {
		a.cond.Wait()
	}
	return ctx.Err()
}

func (a *announcer[T]) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	a.cond.Broadcast()
}
