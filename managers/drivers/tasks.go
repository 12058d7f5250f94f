package drivers

import (
	"fmt"
	"sync"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/managers/catalog"
)

// tasks are the tasks that drivers of this node run now, in any version: where
// their events go, and what their waiters have to know.
type tasks struct {
	mu   sync.Mutex
	byID map[string]*task
}

// task is one invocation of a task.
type task struct {
	id string

	mu       sync.Mutex
	driver   string                      // the one whose events are taken; empty: none
	events   func(*wasmnodev1.TaskEvent) // takes them; nil: they are refused
	handle   *wasmnodev1.TaskHandle      // the newest; nil: the one that the caller has
	notified chan struct{}               // closed and replaced when the task may have ended
}

// of returns the task of that configuration, a new one when it is not known.
func (t *tasks) of(cfg *wasmnodev1.TaskConfig) *task {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.byID[cfg.GetId()]
	if known == nil {
		known = &task{id: cfg.GetId(), notified: make(chan struct{})}
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

// event takes an event of any of a driver's tasks: the sink of its calls about none.
func (t *tasks) event(driver string, e *wasmnodev1.TaskEvent) error {
	known := t.get(e.GetTaskId())
	if known == nil || !known.isOf(driver) {
		return abi.NewError(abi.NotFound, fmt.Sprintf("driver %s has no task %q", driver, catalog.Printable(e.GetTaskId())))
	}
	return known.event(e)
}

func (t *tasks) forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byID, id)
}

// listen sets the sink of the events that a driver, in any version, sends of the task.
func (t *task) listen(driver string, events func(*wasmnodev1.TaskEvent)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.driver, t.events = driver, events
}

// isOf reports whether the task was started or recovered by a driver of that name.
func (t *task) isOf(driver string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.driver == driver
}

// event takes an event of the task: the sink of the calls about it.
func (t *task) event(e *wasmnodev1.TaskEvent) error {
	if e.GetTaskId() != t.id {
		return abi.NewError(abi.PermissionDenied, fmt.Sprintf("this call is about task %s", t.id))
	}
	t.mu.Lock()
	events := t.events
	t.mu.Unlock()
	if events == nil {
		return abi.NewError(abi.FailedPrecondition, fmt.Sprintf("task %s was not recovered, and its events are not accepted", t.id))
	}
	events(e)
	return nil
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

// current returns the newest handle and what is closed at the next notify.
func (t *task) current(given *wasmnodev1.TaskHandle) (*wasmnodev1.TaskHandle, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.handle != nil {
		given = t.handle
	}
	return given, t.notified
}

// notify has the task's waiters poll at once.
func (t *task) notify() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.notified)
	t.notified = make(chan struct{})
}
