package drivertest

import (
	"slices"
	"strings"
	"sync"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/wasm"
)

// LogLine is a line that the driver logged.
type LogLine struct {
	Level   string // "trace", "debug", "info", "warn" or "error"
	Message string
	Fields  map[string]string
}

// Event is a task event that the driver emitted.
type Event = wasmnodev1.TaskEvent

// Logs returns what the driver logged so far. What a compiled plugin prints is among
// it, at level info.
func (n *core) Logs() []LogLine {
	n.records.mu.Lock()
	defer n.records.mu.Unlock()
	return slices.Clone(n.records.logs)
}

// Events returns the task events so far.
func (n *core) Events() []*Event {
	n.records.mu.Lock()
	defer n.records.mu.Unlock()
	return slices.Clone(n.records.events)
}

// Refreshes returns how often the driver asked for an early fingerprint.
func (n *core) Refreshes() int {
	n.records.mu.Lock()
	defer n.records.mu.Unlock()
	return n.records.refreshes
}

// Stdout returns what the driver wrote to the standard output of tasks.
func (n *core) Stdout() string { return n.output(1) }

// Stderr returns what the driver wrote to the standard error of tasks.
func (n *core) Stderr() string { return n.output(2) }

func (n *core) output(stream uint32) string {
	n.records.mu.Lock()
	defer n.records.mu.Unlock()
	return n.records.outputs[stream].String()
}

// Programs returns the WASI programs that the driver started. None of them runs.
func (n *core) Programs() []*wasm.Program {
	n.records.mu.Lock()
	defer n.records.mu.Unlock()
	return slices.Clone(n.records.programs)
}

// RefuseWasm makes every later start of a program fail with err, nil none.
func (n *core) RefuseWasm(err *abi.Error) {
	n.records.mu.Lock()
	defer n.records.mu.Unlock()
	n.records.refuseWasm = err
}

// records is what a driver did to the node.
type records struct {
	mu         sync.Mutex
	logs       []LogLine
	events     []*Event
	refreshes  int
	outputs    [3]strings.Builder    // by stream
	marks      map[string]outputMark // by task and stream
	programs   []*wasm.Program
	refuseWasm *abi.Error
	processes  processes
	workloads  workloads
	real       map[string]*realProcess // by the workload's ID; nil: nothing runs
	kept       kept
	dirs       map[string]*wasmnodev1.TaskDirectories // by task
	listening  map[string]string                      // sockets, by the addresses that they stand for
}

// outputMark is what a driver remembered, and how much output there was then.
type outputMark struct {
	mark []byte
	at   int
}

func (r *records) log(line LogLine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs = append(r.logs, line)
}

// addDirs makes the directories of a task known, by its ID.
func (r *records) addDirs(id string, dirs *wasmnodev1.TaskDirectories) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dirs == nil {
		r.dirs = map[string]*wasmnodev1.TaskDirectories{}
	}
	r.dirs[id] = dirs
}
