package drivers

import (
	"sync"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// tasks are the tasks that drivers of this node run now, in any version: where
// their events go, and what their waiters have to know.
type tasks struct {
	mu   sync.Mutex
	byID map[string]*task
}

// task is one invocation of a task.
type task struct {
	id, allocID, name string

	mu     sync.Mutex
	handle *wasmnodev1.TaskHandle // the newest; nil: the one that the caller has
	nudged chan struct{}          // closed and replaced when the task may have ended
}

// of returns the task of that configuration, a new one when it is not known.
func (t *tasks) of(cfg *wasmnodev1.TaskConfig) *task {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.byID[cfg.GetId()]
	if known == nil {
		known = &task{id: cfg.GetId(), allocID: cfg.GetAllocId(), name: cfg.GetName(), nudged: make(chan struct{})}
		t.byID[known.id] = known
	}
	return known
}

// get returns the task of that ID, nil when it is not known.
func (t *tasks) get(id string) *task {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

func (t *tasks) forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byID, id)
}

// update sets the newest handle; nil leaves it. It returns the one to use.
func (t *task) update(given, newest *wasmnodev1.TaskHandle) *wasmnodev1.TaskHandle {
	t.mu.Lock()
	defer t.mu.Unlock()
	if newest != nil {
		t.handle = newest
	}
	if t.handle != nil {
		return t.handle
	}
	return given
}

// current returns the newest handle and what is closed at the next nudge.
func (t *task) current(given *wasmnodev1.TaskHandle) (*wasmnodev1.TaskHandle, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.handle != nil {
		given = t.handle
	}
	return given, t.nudged
}

// nudge has the task's waiters ask at once.
func (t *task) nudge() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.nudged)
	t.nudged = make(chan struct{})
}
