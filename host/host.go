package host

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"

	"github.com/wasmnode/wasmnode/host/outbound"
	"github.com/wasmnode/wasmnode/internal/hostinfo"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/workload"
)

// Config configures a host. Logger, Engine and Workloads are required.
type Config struct {
	Logger    hclog.Logger
	Engine    *sandbox.Engine
	Workloads workload.Runtime
	// Store is where what plugins keep is durable; nil: they keep nothing.
	Store Store
	// OnRefresh is called when a plugin asks for its fingerprint to be polled now. It must
	// not block.
	OnRefresh func(plugin string)
	// Lookup is how names become addresses that plugins connect to; nil: by the machine's own
	// resolver.
	Lookup outbound.Lookup
	// Version is the node's, as plugins receive it.
	Version string
	// Chroot are the node's files and directories that isolated processes see, read-only,
	// and where: a path of the node's to an absolute path in the task's root. What does
	// not exist is left out.
	Chroot map[string]string
	// Surroundings are the time, the randomness and the files of all plugins; nil: the machine's.
	Surroundings Surroundings
	// Unmasked is that what plugins say is told with the secrets in it, to who has made their
	// requests.
	Unmasked bool
	// Limits bound every plugin; fields that are zero take their defaults.
	Limits Limits
}

// Surroundings are what plugins have of the world without asking for it.
type Surroundings interface {
	// Walltime is the time since the Unix epoch.
	Walltime() (seconds int64, nanoseconds int32)
	// Nanotime is a clock that does not go back, in nanoseconds, and is never 0.
	Nanotime() int64
	// Asleep is told how long a guest wants to sleep, and returns how long it does.
	Asleep(want time.Duration) time.Duration
	// Files is a directory as an instance sees it, at a path: another one than the machine's, which
	// open opens, or that. Op is the operation that the instance is in, for what asks in the
	// goroutine of its call.
	Files(at string, op func() string, open func() (experimentalsys.FS, error)) (experimentalsys.FS, error)
	// Read gives random numbers.
	io.Reader
}

// Limits bound a plugin. Zero takes the default of [DefaultLimits].
type Limits struct {
	FileBytes   int    // of the file
	MemoryBytes uint64 // of one instance
	// PluginMemoryBytes is of all instances of a plugin, those at rest and those that wait
	// included, and AllMemoryBytes of all plugins together, but for the 16 MiB that each gets
	// when others have taken all.
	PluginMemoryBytes uint64
	AllMemoryBytes    uint64
	// CPUPerMinute is how long a plugin's instances may compute in a minute, together.
	CPUPerMinute   time.Duration
	InputBytes     int           // of a call's input
	OutputBytes    int           // of a call's answer, and of what a capability stages
	Instances      int           // in calls at once, waiting ones not counted
	Waiters        int           // instances parked in wait_task at once
	Commands       int           // instances in exec_task at once; more are refused
	IdleInstances  int           // kept for the next calls
	CallTimeout    time.Duration // of a call whose context has no deadline, but wait_task and a command with streams
	DescribeTime   time.Duration // for instantiating and describing a new file
	LogLineBytes   int           // of one log line; longer ones are cut
	LogsPerSecond  int           // a burst of twice as many is let through
	LogBytesPerSec int           // of log lines, once they are escaped; a burst of eight times as many is let through
	EventsPerSec   int           // task events, likewise
}

// The share of the machine's memory that plugins have: beside them are the agent, which
// needs some hundred megabytes, and the tasks, for which the machine is there.
const (
	memoryShare = 4
	leastMemory = 512 << 20 // where that would be less than a few plugins need
	// leastPluginMemory is what each plugin gets when others have taken all: some instances of
	// one in Go.
	leastPluginMemory = 16 << 20
)

// DefaultLimits returns the limits in force where the configuration sets none.
func DefaultLimits() Limits {
	memory := uint64(leastMemory)
	if m, err := hostinfo.ReadMemory(); err == nil {
		memory = max(memory, m.Total/memoryShare)
	}
	return Limits{
		AllMemoryBytes:    memory,
		PluginMemoryBytes: memory / 2,       // so that one leaves the others as much
		CPUPerMinute:      30 * time.Second, // half a processor; a driver's calls take microseconds
		FileBytes:         64 << 20,         // a Go plugin with net/http is 10 MB
		MemoryBytes:       128 << 20,        // a Go plugin at rest needs 3 MB
		InputBytes:        4 << 20,          // an environment and a config are some kilobytes
		OutputBytes:       4 << 20,
		Instances:         32,   // more than a machine has cores to run guests on
		Waiters:           4096, // drivers with many tasks poll instead
		Commands:          64,   // people and checks; a few megabytes each
		IdleInstances:     4,    // a Go instance at rest is 3 MB
		CallTimeout:       30 * time.Second,
		DescribeTime:      5 * time.Second,
		LogLineBytes:      8 << 10,
		LogsPerSecond:     100,
		LogBytesPerSec:    64 << 10, // 5 GB a day, at worst
		EventsPerSec:      50,
	}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	orDefault(&l.FileBytes, d.FileBytes)
	orDefault(&l.MemoryBytes, d.MemoryBytes)
	orDefault(&l.AllMemoryBytes, d.AllMemoryBytes)
	orDefault(&l.PluginMemoryBytes, min(d.PluginMemoryBytes, l.AllMemoryBytes))
	orDefault(&l.CPUPerMinute, d.CPUPerMinute)
	orDefault(&l.InputBytes, d.InputBytes)
	orDefault(&l.OutputBytes, d.OutputBytes)
	orDefault(&l.Instances, d.Instances)
	orDefault(&l.Waiters, d.Waiters)
	orDefault(&l.Commands, d.Commands)
	orDefault(&l.IdleInstances, d.IdleInstances)
	orDefault(&l.CallTimeout, d.CallTimeout)
	orDefault(&l.DescribeTime, d.DescribeTime)
	orDefault(&l.LogLineBytes, d.LogLineBytes)
	orDefault(&l.LogsPerSecond, d.LogsPerSecond)
	orDefault(&l.LogBytesPerSec, d.LogBytesPerSec)
	orDefault(&l.EventsPerSec, d.EventsPerSec)
	return l
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Host loads plugins. It is safe for concurrent use and holds nothing to close:
// plugins are closed one by one, see [Plugin.Close].
type Host struct {
	cfg   Config
	start time.Time // of the plugins' monotonic clock

	programs programTable
	read     programCache
	budget   *sandbox.Budget // of all plugins

	mu       sync.Mutex
	refusals map[sandbox.Stage]uint64
	keepers  map[string]*keeper  // by plugin
	watches  map[string]*watched // by plugin
	// recording: the calls of a plugin are recorded.
	recording bool

	secretVariables sync.Map // see [Plugin.KeepSecrets]: names by task ID, not changed
}

// New returns a host.
func New(cfg Config) *Host {
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.OnRefresh == nil {
		cfg.OnRefresh = func(string) {}
	}
	if cfg.Lookup == nil {
		cfg.Lookup = outbound.SystemLookup
	}
	return &Host{
		cfg: cfg, start: time.Now(), refusals: map[sandbox.Stage]uint64{}, keepers: map[string]*keeper{}, watches: map[string]*watched{},
		budget: sandbox.NewBudget(sandbox.Quota{Memory: cfg.Limits.AllMemoryBytes}, nil),
	}
}

// Limits returns the limits in force.
func (h *Host) Limits() Limits { return h.cfg.Limits }

// Memory returns how many bytes the instances of all plugins have together.
func (h *Host) Memory() uint64 { return h.budget.Memory() }

// nanotime is the plugins' monotonic clock. It tells nothing of the machine's, follows the
// clock of a test that has its own, and is never 0, which Go's runtime takes for broken.
func (h *Host) nanotime() int64 { return int64(time.Since(h.start)) + 1 }

// Load reads, checks, compiles and describes a plugin. Nothing is granted to it
// yet: see [Plugin.Configure]. The caller closes it.
//
// # Errors
//
// A [sandbox.StageError] names the stage that refused the file. The context bounds
// compiling and describing; reading is bounded by limits.
func (h *Host) Load(ctx context.Context, src Source) (*Plugin, error) {
	return h.LoadWanted(ctx, src, nil)
}

// LoadWanted is Load for a plugin that somebody may wait for: while wanted reports so, it is
// compiled before others. It must not block.
func (h *Host) LoadWanted(ctx context.Context, src Source, wanted func() bool) (*Plugin, error) {
	p, err := h.load(ctx, src, wanted)
	var refused *sandbox.StageError
	if errors.As(err, &refused) {
		h.mu.Lock()
		h.refusals[refused.Stage]++
		h.mu.Unlock()
	}
	return p, err
}

// Refusals returns how many files each stage has refused.
func (h *Host) Refusals() map[sandbox.Stage]uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.refusals)
}

func (h *Host) load(ctx context.Context, src Source, wanted func() bool) (*Plugin, error) {
	spec, scanned, err := inspect(src, h.cfg.Limits.FileBytes)
	if err != nil {
		return nil, err
	}
	p := newPlugin(h, spec)
	if p.module, err = h.cfg.Engine.Compile(ctx, scanned, h.cfg.Limits.compiling(wanted)); err != nil {
		return nil, err
	}
	if err := p.describe(ctx); err != nil {
		_ = p.module.Close(context.WithoutCancel(ctx))
		return nil, &sandbox.StageError{Stage: sandbox.StageDescribe, Err: err}
	}
	return p, nil
}

// Compile checks and compiles a plugin's file as Load does, for the engine's cache: none of it
// runs. It returns what the file is, and whether its code is kept. Limits that are zero are the
// defaults.
func Compile(ctx context.Context, engine *sandbox.Engine, src Source, limits Limits) (spec *Spec, kept bool, err error) {
	limits = limits.withDefaults()
	spec, scanned, err := inspect(src, limits.FileBytes)
	if err != nil {
		return nil, false, err
	}
	m, err := engine.Compile(ctx, scanned, limits.compiling(nil))
	if err != nil {
		return nil, false, err
	}
	return spec, m.Kept(), m.Close(context.WithoutCancel(ctx))
}

// compiling is how plugins are compiled: it decides what their code is kept by.
func (l Limits) compiling(wanted func() bool) sandbox.Options {
	return sandbox.Options{MemoryMaxBytes: l.MemoryBytes, Template: true, Lines: true, Wanted: wanted, Link: linkCapabilities}
}
