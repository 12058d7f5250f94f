package testfile

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/sdk/go/conform"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/process"
	"github.com/wasmnode/wasmnode/sdk/go/wasm"
	"github.com/wasmnode/wasmnode/sdk/go/workload"
)

// Options are what tests are run with.
type Options struct {
	// Only selects the tests whose names it matches; nil: all.
	Only *regexp.Regexp
}

// Result is how a test ended.
type Result struct {
	Status conform.Status // [conform.OK] or [conform.Fail]
	File   string
	Line   int // of the test, or of what failed; from 1
	Column int
	Name   string
	Why    string   // it failed; with more than one line where a step was refused for several reasons
	Log    []string // of a test that failed: what the plugin logged last
	Took   time.Duration
}

// Plugin is a plugin's file.
type Plugin struct {
	wasm   []byte
	device bool
}

// Open looks at a plugin's file. The error says why no node would take it.
func Open(wasm []byte) (*Plugin, error) {
	spec, err := host.Inspect(wasm, host.DefaultLimits().FileBytes)
	if err != nil {
		return nil, err
	}
	return &Plugin{wasm, spec.Kind == host.KindDevice}, nil
}

// maxLog is how many of a plugin's last lines the result of a failed test has.
const maxLog = 20

// Run runs tests of a file with a plugin, one after the other, each on a node of its own.
// When ctx is cancelled the processes of the test that runs are killed, and no further one is begun.
func Run(ctx context.Context, p *Plugin, f *File, o Options) []Result {
	var results []Result
	for _, t := range f.Tests {
		if ctx.Err() != nil {
			break
		}
		if o.Only == nil || o.Only.MatchString(t.Name) {
			results = append(results, run(ctx, p, f, t))
		}
	}
	return results
}

// run runs a test.
func run(ctx context.Context, p *Plugin, f *File, t *Test) Result {
	begun := time.Now()
	r := &running{ctx: ctx, plugin: p, test: t, at: t.at, tasks: map[string]*driver.TaskConfig{}, helpers: map[string][]byte{}}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, r.cleanUp) // what runs is killed, so that its steps end
	go func() {                               //nolint:contextcheck // Fatalf ends it; what it starts ends with the test
		defer close(done)
		defer r.cleanUp()
		r.all()
	}()
	<-done
	stop()
	out := Result{Status: conform.OK, File: f.Path, Line: t.at.Start.Line, Column: t.at.Start.Column, Name: t.Name, Took: time.Since(begun)}
	if r.why != "" {
		out.Status, out.Why, out.Log = conform.Fail, r.why, r.lastLines()
		out.Line, out.Column = r.at.Start.Line, r.at.Start.Column
	}
	return out
}

// node is what nodes around plugins of both kinds have.
type node interface {
	Call(operation string, request []byte) ([]byte, error)
	Configure(config string) error
	Upgrade(wasm []byte) error
	RunProcesses()
	OnHelper(run func(*process.Helper) (*process.Ended, error))
	RefuseProcess(err *abi.Error)
	RefuseWasm(err *abi.Error)
	EndWorkload(id string, result *workload.Result)

	Stdout() string
	Stderr() string
	Logs() []drivertest.LogLine
	WorkloadSignals() []drivertest.WorkloadSignal
	Kept() map[string][]byte
	Refreshes() int
	Events() []*drivertest.Event
	Processes() []*process.Command
	Programs() []*wasm.Program
	Helpers() []*process.Helper
}

// running is a test that runs. Its methods but cleanUp are called by one goroutine.
type running struct {
	ctx     context.Context
	plugin  *Plugin
	test    *Test
	node    node
	driver  *drivertest.Node       // the same node, if it is a driver's; else nil
	devices *drivertest.DeviceNode // likewise
	clock   *drivertest.Clock      // nil: time is real
	tasks   map[string]*driver.TaskConfig

	helping sync.Mutex
	helpers map[string][]byte // what they answer, by their commands

	at  hcl.Range // where the test is
	why string    // it failed; empty: it has not

	mu       sync.Mutex
	cleaners []func()
}

var _ drivertest.T = (*running)(nil)

// Helper implements [drivertest.T].
func (*running) Helper() {}

// Fatalf implements [drivertest.T].
func (r *running) Fatalf(format string, args ...any) {
	r.why = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// Cleanup implements [drivertest.T].
func (r *running) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleaners = append(r.cleaners, f)
}

// TempDir implements [drivertest.T].
func (r *running) TempDir() string {
	dir, err := os.MkdirTemp("", "wasmnode-test-")
	if err != nil {
		r.Fatalf("%v", err)
	}
	r.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// cleanUp does what the test left to be done; what is done is not done again.
func (r *running) cleanUp() {
	for {
		r.mu.Lock()
		if len(r.cleaners) == 0 {
			r.mu.Unlock()
			return
		}
		last := r.cleaners[len(r.cleaners)-1]
		r.cleaners = r.cleaners[:len(r.cleaners)-1]
		r.mu.Unlock()
		last()
	}
}

// all makes the node and takes the steps.
func (r *running) all() {
	if r.plugin.device {
		r.devices = drivertest.NewCompiledDevice(r, r.plugin.wasm, r.test.ReadOnly...)
		r.node = r.devices
	} else {
		if !r.test.RealProcesses {
			r.clock = drivertest.NewClock()
		}
		r.driver = drivertest.NewCompiled(r, r.plugin.wasm, r.clock, r.test.ReadOnly...)
		r.node = r.driver
	}
	if r.test.RealProcesses {
		r.node.RunProcesses()
	}
	for _, s := range r.test.steps {
		if r.ctx.Err() != nil {
			r.Fatalf("%v", context.Cause(r.ctx))
		}
		r.at = s.at
		r.take(s)
	}
}

// lastLines are the last that the plugin logged.
func (r *running) lastLines() (out []string) {
	if r.node == nil {
		return nil
	}
	lines := r.node.Logs()
	for _, l := range lines[max(0, len(lines)-maxLog):] {
		text := l.Level + ": " + l.Message
		for _, name := range sorted(l.Fields) {
			text += " " + name + "=" + l.Fields[name]
		}
		out = append(out, text)
	}
	return slices.Clip(out)
}
