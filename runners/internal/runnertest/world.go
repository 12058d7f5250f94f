package runnertest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/structs"
)

// World holds the tasks that run, by invocation ID. It is safe for concurrent use.
type World struct {
	mu       sync.Mutex
	tasks    map[string]*process
	log      []string
	started  map[string]int // by task name
	alive    map[string]int // by key
	doubled  []string       // names of tasks that ran twice at once
	version  int
	current  chan struct{} // closed when the version is replaced
	missing  error         // what Dispense answers; nil: the driver
	holds    int
	faults   map[string]func() error
	events   map[string]func(*wasmnodev1.TaskEvent) // by task name
	networks Networks                               // what the driver makes networks with; nil: it does not
	over     task.Dispense                          // gives the plugin that runs the tasks; nil: the world does
}

// process is one task.
type process struct {
	name string
	key  string // the allocation and the name
	done chan struct{}
	exit *structs.ExitResult
}

// NewWorld is a world where nothing runs and the driver is there.
func NewWorld() *World {
	return &World{
		tasks: map[string]*process{}, started: map[string]int{}, alive: map[string]int{},
		current: make(chan struct{}), faults: map[string]func() error{},
		events: map[string]func(*wasmnodev1.TaskEvent){},
	}
}

// Dispense is a [task.Dispense].
func (w *World) Dispense(name string) (task.Driver, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.missing != nil {
		return nil, w.missing
	}
	if name != "mock" {
		return nil, abi.NewError(abi.NotFound, fmt.Sprintf("unknown driver %q", name))
	}
	d := &driver{w: w, version: w.version, replaced: w.current}
	if w.over == nil {
		w.holds++
		return d, nil
	}
	plugin, err := w.over("mock_driver")
	if err != nil {
		return nil, err
	}
	w.holds++
	return &onPlugin{driver: d, plugin: plugin}, nil
}

// Networks are those that a driver makes itself.
type Networks interface {
	Create(allocID, hostname string) (*os.File, error)
	Destroy(allocID string) error
}

// Create has the driver make networks, from the start on.
func (w *World) Create(n Networks) { w.networks = n }

// DestroyNetwork has the driver let go of what it made.
func (w *World) DestroyNetwork(_ context.Context, driver, allocID string) error {
	if w.networks == nil || driver != "mock" {
		return nil
	}
	return w.networks.Destroy(allocID)
}

// Missing makes Dispense fail; nil: it does not any more.
func (w *World) Missing(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missing = err
}

// Fail has an operation ("recover", "wait", …) of the driver ask fn first, and fail with
// its error if there is one; nil: it does not any more.
func (w *World) Fail(op string, fn func() error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults[op] = fn
}

// SendEvent has the driver send an event about the task of that name, which was started or
// recovered before and may have ended.
func (w *World) SendEvent(name, message string) {
	w.mu.Lock()
	events := w.events[name]
	w.mu.Unlock()
	events(&wasmnodev1.TaskEvent{Message: message})
}

// listen remembers who takes a task's events.
func (w *World) listen(name string, events func(*wasmnodev1.TaskEvent)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events[name] = events
}

func (w *World) fault(op string) error {
	w.mu.Lock()
	fn := w.faults[op]
	w.mu.Unlock()
	if fn == nil {
		return nil
	}
	return fn()
}

// Upgrade replaces the driver by its next version.
func (w *World) Upgrade() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	close(w.current)
	w.current = make(chan struct{})
}

// Exit ends the running task of that name, as by itself. It reports whether one ran.
func (w *World) Exit(name string, exit structs.ExitResult) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.tasks {
		if p.name == name && p.exit == nil {
			w.endLocked(p, exit)
			return true
		}
	}
	return false
}

// Lose forgets everything that runs, as a reboot does. A runner that is there may record it as a task's end.
func (w *World) Lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.tasks {
		w.endLocked(p, structs.ExitResult{Err: "lost"})
	}
	clear(w.tasks)
}

// Running is the names of the tasks that run, sorted.
func (w *World) Running() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for _, p := range w.tasks {
		if p.exit == nil {
			names = append(names, p.name)
		}
	}
	slices.Sort(names)
	return names
}

// Known is how many tasks were not destroyed.
func (w *World) Known() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.tasks)
}

// Started is how often a task of that name was started.
func (w *World) Started(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.started[name]
}

// Doubled is the names of tasks that ever ran twice at once.
func (w *World) Doubled() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.doubled)
}

// Holds is how many dispensed drivers were not released.
func (w *World) Holds() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.holds
}

// Log is what was done to the tasks, in order: "start web", "stop web", "end web", …
func (w *World) Log() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

// Count is how often the log has an entry with that prefix.
func (w *World) Count(prefix string) int {
	n := 0
	for _, line := range w.Log() {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

func (w *World) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *World) start(id, key, name string) (*process, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tasks[id] != nil {
		return nil, abi.NewError(abi.AlreadyExists, "task "+id+" exists")
	}
	if w.alive[key] > 0 {
		w.doubled = append(w.doubled, key)
	}
	w.alive[key]++
	p := &process{name: name, key: key, done: make(chan struct{})}
	w.tasks[id] = p
	w.started[name]++
	w.log = append(w.log, "start "+name)
	return p, nil
}

func (w *World) end(p *process, exit structs.ExitResult) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endLocked(p, exit)
}

func (w *World) endLocked(p *process, exit structs.ExitResult) {
	if p.exit == nil {
		p.exit = &exit
		w.alive[p.key]--
		w.log = append(w.log, "end "+p.name)
		close(p.done)
	}
}

func (w *World) find(id string) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tasks[id]
}

func (w *World) destroy(id string) {
	p := w.find(id)
	if p == nil {
		return
	}
	w.end(p, structs.ExitResult{ExitCode: 137, Signal: 9})
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.tasks, id)
}
