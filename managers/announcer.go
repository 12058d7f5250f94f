package managers

import (
	"context"
	"sync"
)

// announced is a state that an [announcer] tells; its zero value says that there is
// none any more.
type announced[T any] interface {
	comparable
	Same(o T) bool
	Copy() T
}

// announcer tells an updater of states, each under a name: one at a time, in order,
// with no lock held, and only what differs from what was told before. It holds one
// state a name: what was not told in time is overtaken.
type announcer[T announced[T]] struct {
	update func(name string, state T)

	mu      sync.Mutex
	cond    *sync.Cond
	order   []string
	latest  map[string]T
	told    map[string]T // as told last; only the announcer's goroutine
	telling bool
	stopped bool
}

func (a *announcer[T]) init(update func(string, T)) {
	if update == nil {
		update = func(string, T) {}
	}
	a.update = update
	a.cond = sync.NewCond(&a.mu)
	a.latest = map[string]T{}
	a.told = map[string]T{}
}

// say has a state told. It does not block.
func (a *announcer[T]) say(name string, state T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, waits := a.latest[name]; !waits {
		a.order = append(a.order, name)
	}
	a.latest[name] = state
	a.cond.Broadcast()
}

// run tells until stop.
func (a *announcer[T]) run() {
	var none T
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		for len(a.order) == 0 && !a.stopped {
			a.cond.Wait()
		}
		if a.stopped {
			return
		}
		name := a.order[0]
		state := a.latest[name]
		a.order = a.order[1:]
		delete(a.latest, name)
		before, known := a.told[name]
		if state == none && !known || state != none && known && state.Same(before) {
			a.cond.Broadcast()
			continue
		}
		a.telling = true
		a.mu.Unlock()
		a.update(name, state.Copy())
		a.mu.Lock()
		a.telling = false
		if state == none {
			delete(a.told, name)
		} else {
			a.told[name] = state
		}
		a.cond.Broadcast()
	}
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
	for (len(a.order) > 0 || a.telling) && !a.stopped && ctx.Err() == nil {
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
