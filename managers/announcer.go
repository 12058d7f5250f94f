package managers

import (
	"context"
	"sync"

	"github.com/wasmnode/wasmnode/structs"
)

// announcer tells the updater of drivers' states: one at a time, in order, with no
// lock held, and only what differs from what was told before. It holds one state a
// driver: what was not told in time is overtaken.
type announcer struct {
	update func(name string, info *structs.DriverInfo)

	mu      sync.Mutex
	cond    *sync.Cond
	order   []string
	latest  map[string]*structs.DriverInfo
	told    map[string]*structs.DriverInfo // as told last; only the announcer's goroutine
	telling bool
	stopped bool
}

func (a *announcer) init(update func(string, *structs.DriverInfo)) {
	if update == nil {
		update = func(string, *structs.DriverInfo) {}
	}
	a.update = update
	a.cond = sync.NewCond(&a.mu)
	a.latest = map[string]*structs.DriverInfo{}
	a.told = map[string]*structs.DriverInfo{}
}

// say has info told; nil: the driver is lost. It does not block.
func (a *announcer) say(name string, info *structs.DriverInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, waits := a.latest[name]; !waits {
		a.order = append(a.order, name)
	}
	a.latest[name] = info
	a.cond.Broadcast()
}

// run tells until stop.
func (a *announcer) run() {
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
		info := a.latest[name]
		a.order = a.order[1:]
		delete(a.latest, name)
		before, known := a.told[name]
		if info == nil && !known || info != nil && known && info.Same(before) {
			a.cond.Broadcast()
			continue
		}
		a.telling = true
		a.mu.Unlock()
		a.update(name, info.Copy())
		a.mu.Lock()
		a.telling = false
		if info == nil {
			delete(a.told, name)
		} else {
			a.told[name] = info
		}
		a.cond.Broadcast()
	}
}

// flush returns when all that was said has been told, or ctx's error.
func (a *announcer) flush(ctx context.Context) error {
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

func (a *announcer) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	a.cond.Broadcast()
}
