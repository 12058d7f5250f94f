package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/configschema"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sdk/go/conform"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/mux"
	"github.com/wasmnode/wasmnode/workload/process"
	"github.com/wasmnode/wasmnode/workload/wasi"
)

// Config configures a trial. Logger is required.
type Config struct {
	// Logger gets the log of the plugin.
	Logger hclog.Logger
	// CacheDir is where compiled code is kept, of this and other trials; empty: nowhere.
	CacheDir string
	// Version is the node's, as the plugin receives it.
	Version string
	// Chroot are the machine's files and directories that isolated processes see, as of [host.Config].
	Chroot map[string]string
	// Limits bound the plugin; fields that are zero take the host's defaults.
	Limits host.Limits
	// Repeatable trials can record calls and replay them: see [Trial.Record], [Trial.Replay].
	Repeatable bool
}

// Trial is one plugin on a host of its own. One goroutine at a time uses it. Close it.
type Trial struct {
	plugin    *host.Plugin
	workloads mux.Runtime
	engine    *sandbox.Engine
	closers   []func() error

	// What the plugin was granted and configured with last.
	grants host.Grants
	config []byte

	world *world // nil: the machine's
}

// trials distinguishes the processes of those that this process has.
var trials atomic.Int64

// Open loads a plugin: its file is read, compiled and described. Nothing is granted to it: see
// [Trial.Configure]. The error says on one line what is wrong with the file.
func Open(ctx context.Context, wasm []byte, cfg Config) (_ *Trial, err error) {
	t := &Trial{}
	defer func() { //nolint:contextcheck // closing is not given up
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	if t.engine, err = sandbox.Open(sandbox.Config{CacheDir: cfg.CacheDir}); err != nil {
		return nil, err
	}
	quiet := hclog.NewNullLogger()
	processes, err := process.New(process.Config{Logger: quiet, Name: fmt.Sprintf("trial-%d-%d", os.Getpid(), trials.Add(1))})
	if err != nil {
		return nil, err
	}
	programs := wasi.New(wasi.Config{Logger: quiet, Engine: t.engine, ShareMemory: processes.ShareMemory}) //nolint:contextcheck // programs outlive the loading
	t.closers = append(t.closers, programs.Close, processes.Close)
	t.workloads = mux.Runtime{WASI: programs, Processes: processes}
	hc := host.Config{
		Logger: cfg.Logger, Engine: t.engine, Workloads: t.workloads, Store: &memory{}, Version: cfg.Version, Limits: cfg.Limits, Chroot: cfg.Chroot, Unmasked: true,
	}
	if cfg.Repeatable {
		t.world = &world{}
		hc.Surroundings = t.world
	}
	h := host.New(hc)
	if t.plugin, err = h.Load(ctx, host.NewSource(wasm)); err != nil {
		return nil, err
	}
	return t, nil
}

// Close ends what the plugin started and frees all that the trial has.
func (t *Trial) Close() error {
	if t.plugin != nil {
		t.plugin.Close()
	}
	var errs []error
	for _, closeIt := range t.closers {
		errs = append(errs, closeIt())
	}
	if t.engine != nil {
		errs = append(errs, t.engine.Close(context.Background()))
	}
	return errors.Join(errs...)
}

// Plugin is the plugin that is tried.
func (t *Trial) Plugin() *host.Plugin { return t.plugin }

// Configure grants the plugin what it may do and hands it its own configuration, which is
// checked against its schema and gets its defaults, as a node does. It is not asked for
// anything but to describe itself before.
//
// # Errors
//
// A [*configschema.FaultsError] lists what its schema refuses; the others are those of
// [host.Plugin.Configure].
func (t *Trial) Configure(ctx context.Context, grants host.Grants, config map[string]any) error {
	decoded, err := t.checkConfig(config)
	if err != nil {
		return err
	}
	t.grants, t.config = grants, decoded
	return t.plugin.Configure(ctx, grants, decoded)
}

// checkConfig checks a plugin's own configuration, and returns it with its defaults.
func (t *Trial) checkConfig(config map[string]any) ([]byte, error) {
	schema, err := configschema.Compile(t.plugin.Description().PluginConfigSchema)
	if err != nil {
		return nil, fmt.Errorf("plugin_config_schema: %w", err)
	}
	return schema.CheckJSON("config", config)
}

// TaskConfig checks a task's config block against the driver's schema, and returns it with the
// schema's defaults: what the driver gets. The error is as that of [Trial.Configure].
func (t *Trial) TaskConfig(config map[string]any) ([]byte, error) {
	schema, err := configschema.Compile(t.plugin.Description().TaskConfigSchema)
	if err != nil {
		return nil, fmt.Errorf("task_config_schema: %w", err)
	}
	return schema.CheckJSON("config", config)
}

// Call is one call of an operation.
type Call struct {
	Op      string
	Request []byte // encoded
	// Task is the task that the call is about; nil: none.
	Task *wasmnodev1.TaskConfig
	// Fail is which use of a capability in the operation fails, among those that answer anything
	// at all.
	Fail conform.Fault
}

// Result is what became of a call.
type Result struct {
	Answer []byte // encoded; nil when there is an Err
	Err    error  // as of [host.Plugin.Call]
	// Took is the whole time, Guest that in the plugin's own code, without configuring an
	// instance first.
	Took, Guest time.Duration
	Fuel        uint64 // how often the plugin was given fuel
	Memory      uint64 // that the instance has, in bytes
	// Uses are the capabilities that were used, in their order: also in configure, where the
	// call had to make an instance.
	Uses   []host.CapabilityUse
	Events []*wasmnodev1.TaskEvent
	// Files are those that a call which is recorded asked for by WASI, sorted, at most 32.
	Files []string
}

// Call calls an operation. The context bounds it; without a deadline the host's bounds do.
func (t *Trial) Call(ctx context.Context, c Call) *Result {
	return t.call(ctx, c, nil)
}

// call is Call. It tells of what is exchanged.
func (t *Trial) call(ctx context.Context, c Call, exchanged func(u host.CapabilityUse, x *host.Exchange)) *Result {
	return t.observe(ctx, c, false, func(o *host.Observer) {
		o.Exchanged = exchanged
		asked := 0
		o.Asks = func(u host.CapabilityUse) error {
			if u.Op != c.Op || !u.Answers {
				return nil
			}
			if asked++; asked == c.Fail.Use {
				return c.Fail.Err
			}
			return nil
		}
	})
}

// observe calls an operation with an observer; fresh: in a new instance, which is configured
// under the observer's eyes.
func (t *Trial) observe(ctx context.Context, c Call, fresh bool, complete func(o *host.Observer)) *Result {
	r := &Result{}
	o := &host.Observer{
		Asked: func(u host.CapabilityUse) { r.Uses = append(r.Uses, u) },
		Returned: func(u host.CallUsage) {
			if u.Op == c.Op {
				r.Guest, r.Fuel, r.Memory = u.Guest, u.Fuel, u.Memory
			}
		},
	}
	complete(o)
	ctx = host.WithObserver(ctx, o)
	ctx = host.WithEvents(ctx, func(e *wasmnodev1.TaskEvent) error {
		r.Events = append(r.Events, e)
		return nil
	})
	var scope *host.TaskScope
	if c.Task != nil {
		scope = &host.TaskScope{Config: c.Task}
	}
	began := time.Now()
	if fresh {
		if err := t.plugin.Configure(ctx, t.grants, t.config); err != nil {
			r.Err = fmt.Errorf("configure: %w", err)
		}
	}
	if r.Err == nil {
		r.Answer, r.Err = t.plugin.Call(ctx, c.Op, c.Request, scope)
	}
	r.Took = time.Since(began)
	return r
}

// Workloads returns what runs the workloads that the plugin starts.
func (t *Trial) Workloads() workload.Runtime { return t.workloads }
