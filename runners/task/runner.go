package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/tracing"
	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/runners/restart"
	"github.com/wasmnode/wasmnode/runners/template"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// ErrNotRunning is returned when a task that does not run is to be restarted or
// signalled, or is to have a command run in it. The text is Nomad's, which its tools show.
var ErrNotRunning = errors.New("Task not running")

// Config configures what to run and with what. All fields but those marked optional are
// required.
type Config struct {
	Alloc *structs.Allocation
	Task  string
	// Node returns the node as it is now; read-only.
	Node     func() *structs.Node
	Dir      *allocdir.TaskDir
	State    state.DB
	Dispense Dispense
	// Changed is called when State returns something new. It must not block.
	Changed func()
	// Gate returns a channel that is closed while the task may start; optional. It is
	// asked again before each first start and forced restart.
	Gate func() <-chan struct{}
	// Network is the allocation's own, once the task may start; nil, or nothing: it has
	// the node's.
	Network func() *structs.AllocNetwork
	// ReservedCores returns the cores that tasks of this node have reserved, this one among them;
	// optional: none have.
	ReservedCores func() []int
	// Services has the services that templates look up; optional: none can.
	Services template.Services
	// Variables has the variables that templates read; optional: none can.
	Variables template.Variables
	// Identities signs the tokens of the task; optional: it is given none.
	Identities Identities
	// API serves the node's API on the task's socket; optional: it has none.
	API API
	// Left is what outlived the last agent; optional: that is not known.
	Left Left
	// Heard is closed when the control plane has said what is to run since the agent began: a task whose
	// run did not survive is not started again before, since it may run elsewhere meanwhile; optional:
	// there is nowhere else. Tasks of system jobs do not wait, as with Nomad: there is one on each node.
	Heard <-chan struct{}
	// Traces are of starts; optional.
	Traces *tracing.Tracer
	// SecretsInMemory has the secrets directory be in memory; otherwise it is on the disk.
	SecretsInMemory bool
	// Devices has the devices reserved that the task was given; optional: a task that
	// was given some does not start.
	Devices Devices
	// HostEnv is what tasks that are processes of the machine have of its environment
	// where nothing else sets it; optional, read-only.
	HostEnv map[string]string
	// Hooks run after the built-in ones; optional.
	Hooks  []Hook
	Limits Limits
	// Jitter stretches restart delays; optional: [restart.Jitter].
	Jitter func(time.Duration) time.Duration
	Logger hclog.Logger // optional
}

// Runner runs one task. All methods may be called concurrently; Restore is called
// before Run or not at all.
//
// A field is set by New and does not change; or is owned by the goroutine that runs Run;
// or is shared under a lock. What callers want of the goroutine they put in rec, and wake
// it.
type Runner struct {
	// Set by New. Hooks may keep a state, which is the goroutine's.
	cfg    Config
	limits Limits
	logger hclog.Logger
	hooks  []Hook
	endings

	// Owned by the goroutine that runs Run: by Restore before, by Finish afterwards.
	local    state.TaskLocal
	unsaved  bool   // local differs from what is durable
	restored bool   // local and the state were read back
	gone     string // with what the run was lost that was read back; empty: it may be there
	later    bool   // the run that was found was started after what is stored
	waiting  bool   // the task has an event that its driver is waited for
	losses   []time.Time
	disposal *disposal // the last; nil: there was none

	disposals sync.WaitGroup // those that go on

	// Shared, each with a lock of its own; neither is taken under the other.
	rec   record
	usage usage

	restart  wake.Signal // a restart is pending
	updated  wake.Signal // the allocation has changed
	signals  chan *signalRequest
	notes    chan hookNote
	launched atomic.Bool
	waitCh   chan struct{}
}

// endings is how others end a runner: kill ends its task, and wins; detach leaves the
// task as it is, because the agent stops.
type endings struct {
	killed   context.Context // done: the task is to end
	shutdown context.Context // done: the runner is to detach
	active   context.Context // done when either is
	kill     context.CancelFunc
	detach   func()

	noDelay chan struct{} // closed: the shutdown delay is skipped
	skip    func()        // closes noDelay, once
}

func newEndings() (e endings) {
	var stop, inactive context.CancelFunc
	e.killed, e.kill = context.WithCancel(context.Background())
	e.active, inactive = context.WithCancel(e.killed)
	e.shutdown, stop = context.WithCancel(context.Background())
	e.detach = func() { stop(); inactive() }
	noDelay := make(chan struct{})
	e.noDelay, e.skip = noDelay, sync.OnceFunc(func() { close(noDelay) })
	return e
}

// invocation is one run of the task. It is replaced, never changed.
type invocation struct {
	driver  Driver
	config  *wasmnodev1.TaskConfig
	handle  *wasmnodev1.TaskHandle
	network *wasmnodev1.DriverNetwork // nil: the driver gave the task no address
	// done is closed when the run has ended.
	done chan struct{}
}

// New makes the runner of a task. Nothing is started or written.
func New(cfg Config) (*Runner, error) {
	task := cfg.Alloc.Task(cfg.Task)
	if task == nil {
		return nil, fmt.Errorf("task: %q is not in group %q", cfg.Task, cfg.Alloc.TaskGroup)
	}
	if cfg.Alloc.Resources.Tasks[cfg.Task] == nil {
		return nil, fmt.Errorf("task: no task resources found on allocation for %q", cfg.Task)
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.Jitter == nil {
		cfg.Jitter = restart.Jitter
	}
	r := &Runner{
		cfg: cfg, limits: cfg.Limits.withDefaults(),
		logger:  cfg.Logger.With("task", cfg.Task),
		endings: newEndings(),
		local:   state.TaskLocal{Hooks: map[string]*state.HookState{}},
		restart: wake.New(),
		updated: wake.New(),
		signals: make(chan *signalRequest),
		notes:   make(chan hookNote),
		waitCh:  make(chan struct{}),
	}
	r.hooks = slices.Concat(builtin(cfg, r.limits), deviceHooks(cfg), cfg.Hooks, last(cfg))
	r.rec = record{changed: cfg.Changed, logger: r.logger, put: r.put, status: status{alloc: cfg.Alloc, task: task}}
	s := cfg.Alloc.TaskStates[cfg.Task].Copy()
	if s == nil {
		s = &structs.TaskState{State: structs.TaskPending}
		s.Append(structs.NewTaskEvent(structs.EventReceived))
	}
	if s.State == structs.TaskRunning && cfg.Left != nil && cfg.Left.Run(cfg.Alloc.ID, cfg.Task, time.Time{}) == "" {
		s.Enter(structs.TaskPending, time.Now()) // as far as is known before Restore
	}
	r.rec.reset(s)
	return r, nil
}

// Restore reads back what an earlier runner stored. A run that was found, of which nothing is
// stored, becomes the task's. Running tasks are recovered by Run, so that a driver that is
// slow or gone does not hold up others.
func (r *Runner) Restore() error {
	local, s, err := r.cfg.State.Task(r.cfg.Alloc.ID, r.cfg.Task)
	found := r.unstoredRun(local, s)
	if err != nil && found == "" {
		return fmt.Errorf("task: %q: restore: %w", r.cfg.Task, err)
	}
	if local != nil {
		r.local = *local
		if r.local.Hooks == nil {
			r.local.Hooks = map[string]*state.HookState{}
		}
		if _, broken := r.stored(); broken != nil && r.cfg.Left != nil {
			r.logger.Warn("what is stored of the task's run cannot be read: it is looked for by its ID", "id", r.local.TaskID, "error", broken)
			r.onlyID(r.local.TaskID)
		}
	}
	if found != "" {
		what := []any{"id", found, "stored", r.local.TaskID}
		if err != nil {
			what = append(what, "error", err)
		}
		r.logger.Warn("a run of the task was found of which nothing is stored", what...)
		r.onlyID(found)
		r.later = local != nil
	}
	if s != nil {
		s = s.Copy()
		if r.gone = goneWith(r.cfg.Left, &r.local, s); r.gone != "" {
			s.Enter(structs.TaskPending, time.Now())
		}
		r.rec.reset(s)
		if killAnnounced(s) {
			r.rec.killing, r.rec.final = true, true // not shared yet
			r.kill()
		}
	}
	r.restored = local != nil || s != nil || found != ""
	return nil
}

// RestoredRun is the ID of the run that Restore read back; empty: there is none. It is
// called before Run, or not at all.
func (r *Runner) RestoredRun() string { return r.local.TaskID }

// killAnnounced reports whether a kill was announced and not yet reported as done: it
// goes on where the earlier agent left it, and is not announced again.
func killAnnounced(s *structs.TaskState) bool {
	if s.State == structs.TaskDead {
		return false
	}
	return slices.ContainsFunc(s.Events, func(e *structs.TaskEvent) bool { return e.Type == structs.EventKilling })
}

// Name is the task's name.
func (r *Runner) Name() string { return r.cfg.Task }

// Task is the task as the job has it now. It is read-only.
func (r *Runner) Task() *nomad.Task {
	_, task := r.current()
	return task
}

// State is the task's newest durable state. It is read-only.
func (r *Runner) State() *structs.TaskState { return r.rec.visible() }

// WaitCh is closed when Run has returned.
func (r *Runner) WaitCh() <-chan struct{} { return r.waitCh }

// Update hands over a new version of the allocation. A task that it no longer has is
// killed.
func (r *Runner) Update(alloc *structs.Allocation) {
	task := alloc.Task(r.cfg.Task)
	if task == nil {
		r.Kill(structs.NewTaskEvent(structs.EventKilling).WithKillReason("update missing task").Fails())
		return
	}
	r.rec.locked(func(s *status) {
		if alloc.Resources.Tasks[r.cfg.Task] != nil {
			s.alloc, s.task = alloc, task
		}
	})
	r.updated.Set()
}

// Kill makes the task end, for good, from wherever it is. It does not wait. The reason
// is an event with the reason, put before the Killing event; nil: none. A task that is
// dead already is only released from waiting for a restart.
func (r *Runner) Kill(reason *structs.TaskEvent) {
	timeout := r.killTimeout()
	r.rec.update(func(s *status) bool {
		s.final = true
		if s.killing || s.state.State == structs.TaskDead {
			return false
		}
		s.killing = true
		if reason != nil {
			s.state.Append(reason)
		}
		if reason == nil || reason.Type != structs.EventKilling {
			s.state.Append(structs.NewTaskEvent(structs.EventKilling).WithKillTimeout(timeout))
		}
		return true
	})
	r.kill()
}

// FailSetup makes a task whose allocation could not be set up end as failed, whether
// it was started before (by an earlier agent) or not.
func (r *Runner) FailSetup(reason string) {
	r.rec.update(func(s *status) bool {
		s.final = true
		if s.state.State == structs.TaskDead {
			return false
		}
		s.state.Append(structs.NewTaskEvent(structs.EventSetupFailure).WithMessage(reason).Fails())
		return true
	})
	r.kill()
}

// SkipShutdownDelay makes a kill, now or later, not wait for the shutdown delay.
func (r *Runner) SkipShutdownDelay() { r.skip() }

// Shutdown makes the runner leave its task as it is and return. It does not wait.
func (r *Runner) Shutdown() { r.detach() }

// Emit adds an event to the task's.
func (r *Runner) Emit(e *structs.TaskEvent) { r.emit(e) }

func (r *Runner) emit(e *structs.TaskEvent) {
	r.rec.update(func(s *status) bool {
		s.state.Append(e)
		return true
	})
}

func (r *Runner) amend(e *structs.TaskEvent, text string) {
	r.rec.update(func(s *status) bool { return s.state.Amend(e, text) })
}

// current is the allocation and the task as the control plane sent them last.
func (r *Runner) current() (alloc *structs.Allocation, task *nomad.Task) {
	r.rec.locked(func(s *status) { alloc, task = s.alloc, s.task })
	return alloc, task
}

// resources are never nil: New and Update see to it.
func (r *Runner) resources(alloc *structs.Allocation) *structs.TaskResources {
	return alloc.Resources.Tasks[r.cfg.Task]
}

// killTimeout is how long the task has to end by itself.
func (r *Runner) killTimeout() time.Duration {
	_, task := r.current()
	timeout := defaultKillTimeout
	if task.KillTimeout != nil {
		timeout = max(0, *task.KillTimeout)
	}
	return min(timeout, r.limits.MaxKillTimeout)
}

// defaultKillTimeout is Nomad's, for a task that does not set one.
const defaultKillTimeout = 5 * time.Second

// running is the invocation that runs now; nil: none.
func (r *Runner) running() (run *invocation) {
	r.rec.locked(func(s *status) { run = s.run })
	return run
}

func (r *Runner) setRunning(run *invocation) {
	r.rec.locked(func(s *status) { s.run = run })
}

// put makes a state durable, with local or without.
func (r *Runner) put(s *structs.TaskState, local *state.TaskLocal) error {
	if local == nil {
		return r.cfg.State.PutTaskState(r.cfg.Alloc.ID, r.cfg.Task, s)
	}
	return r.cfg.State.PutTask(r.cfg.Alloc.ID, r.cfg.Task, local, s)
}

// unsavedLocal is a copy of local if it is not durable, otherwise nil.
func (r *Runner) unsavedLocal() *state.TaskLocal {
	if !r.unsaved {
		return nil
	}
	local := r.local
	local.Hooks = maps.Clone(r.local.Hooks)
	return &local
}

// save makes local durable if it changed.
func (r *Runner) save() error {
	local := r.unsavedLocal()
	if local == nil {
		return nil
	}
	if err := r.cfg.State.PutTaskLocal(r.cfg.Alloc.ID, r.cfg.Task, local); err != nil {
		return fmt.Errorf("make the task's state durable: %w", err)
	}
	r.unsaved = false
	return nil
}
