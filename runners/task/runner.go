package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/runners/restart"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// ErrNotRunning is returned when a task that does not run is to be restarted or
// signalled, or is to have a command run in it. The text is Nomad's, which its tools show.
var ErrNotRunning = errors.New("Task not running")

// Config says what to run and with what. All fields but those marked optional are
// required.
type Config struct {
	Alloc    *structs.Allocation
	Task     string
	Node     *structs.Node
	Dir      *allocdir.TaskDir
	State    state.DB
	Dispense Dispense
	// Changed is called when State returns something new. It must not block.
	Changed func()
	// Gate returns a channel that is closed while the task may start; optional. It is
	// asked anew before each first start and forced restart.
	Gate func() <-chan struct{}
	// Devices has the devices reserved that the task was given; optional: a task that
	// was given some does not start.
	Devices Devices
	// Hooks run after the built-in ones; optional.
	Hooks  []Hook
	Limits Limits
	// Jitter stretches restart delays; optional: [restart.Jitter].
	Jitter func(time.Duration) time.Duration
	Logger hclog.Logger // optional
}

// Runner runs one task. All methods may be called concurrently; Restore is called
// before Run or not at all.
type Runner struct {
	cfg    Config
	limits Limits
	logger hclog.Logger
	hooks  []Hook
	rec    record

	// Owned by the goroutine that runs Run.
	local    state.TaskLocal
	unsaved  bool // local differs from what is durable
	restored bool // local and state were read back

	// Wishes, and what they need to know. Guarded by rec.mu, so that a wish and the
	// event that tells of it are one step.
	wish     *RestartRequest
	delaying bool // waiting to restart
	killing  bool // the Killing event was emitted
	killErr  error
	closed   bool // no restart is possible any more

	killed   context.Context // done: the task is to end
	shutdown context.Context // done: the runner is to leave
	active   context.Context // done when either is
	kill     context.CancelFunc
	depart   func()
	noDelay  chan struct{} // closed: skip the shutdown delay
	skip     sync.Once

	poke    chan struct{} // a restart is wished; capacity 1: they coalesce
	updated chan struct{} // the allocation changed; capacity 1
	signals chan *signalRequest
	launch  sync.Once
	waitCh  chan struct{}

	mu    sync.Mutex // guards what follows
	alloc *structs.Allocation
	task  *nomad.Task
	run   *invocation

	usage usage
}

// invocation is one run of the task. It is replaced, never changed.
type invocation struct {
	driver Driver
	config *wasmnodev1.TaskConfig
	handle *wasmnodev1.TaskHandle
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
		alloc:   cfg.Alloc,
		task:    task,
		local:   state.TaskLocal{Hooks: map[string]*state.HookState{}},
		noDelay: make(chan struct{}),
		poke:    make(chan struct{}, 1),
		updated: make(chan struct{}, 1),
		signals: make(chan *signalRequest),
		waitCh:  make(chan struct{}),
	}
	var stop, inactive context.CancelFunc
	r.killed, r.kill = context.WithCancel(context.Background())
	r.active, inactive = context.WithCancel(r.killed)
	r.shutdown, stop = context.WithCancel(context.Background())
	r.depart = func() { stop(); inactive() }
	r.hooks = slices.Concat(builtin(r.limits), deviceHooks(cfg), cfg.Hooks, last())
	r.rec = record{changed: cfg.Changed, logger: r.logger, put: r.put}
	s := cfg.Alloc.TaskStates[cfg.Task].Copy()
	if s == nil {
		s = &structs.TaskState{State: structs.TaskPending}
		s.Append(structs.NewTaskEvent(structs.EventReceived))
	}
	r.rec.reset(s)
	return r, nil
}

// Restore reads back what an earlier runner stored. Running tasks are recovered by
// Run, so that a driver that is slow or gone holds up nobody else.
func (r *Runner) Restore() error {
	local, s, err := r.cfg.State.Task(r.cfg.Alloc.ID, r.cfg.Task)
	if err != nil {
		return fmt.Errorf("task: %q: restore: %w", r.cfg.Task, err)
	}
	if local != nil {
		r.local = *local
		if r.local.Hooks == nil {
			r.local.Hooks = map[string]*state.HookState{}
		}
	}
	if s != nil {
		r.rec.reset(s.Copy())
		if killAnnounced(s) {
			r.killing, r.closed = true, true
			r.kill()
		}
	}
	r.restored = local != nil || s != nil
	return nil
}

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
	r.mu.Lock()
	if alloc.Resources.Tasks[r.cfg.Task] != nil {
		r.alloc, r.task = alloc, task
	}
	r.mu.Unlock()
	select {
	case r.updated <- struct{}{}:
	default:
	}
}

// Kill makes the task end, for good, from wherever it is. It does not wait. The reason
// is an event that tells why, put before the Killing event; nil: none. A task that is
// dead already is only released from waiting for a restart.
func (r *Runner) Kill(reason *structs.TaskEvent) {
	timeout := r.killTimeout()
	r.rec.update(func(s *structs.TaskState) bool {
		r.closed = true
		if r.killing || s.State == structs.TaskDead {
			return false
		}
		r.killing = true
		if reason != nil {
			s.Append(reason)
		}
		if reason == nil || reason.Type != structs.EventKilling {
			s.Append(structs.NewTaskEvent(structs.EventKilling).WithKillTimeout(timeout))
		}
		return true
	})
	r.kill()
}

// FailSetup makes a task whose allocation could not be set up end as failed, whether
// it was started before (by an earlier agent) or not.
func (r *Runner) FailSetup(reason string) {
	r.rec.update(func(s *structs.TaskState) bool {
		r.closed = true
		if s.State == structs.TaskDead {
			return false
		}
		s.Append(structs.NewTaskEvent(structs.EventSetupFailure).WithMessage(reason).Fails())
		return true
	})
	r.kill()
}

// SkipShutdownDelay makes a kill, now or later, not wait for the shutdown delay.
func (r *Runner) SkipShutdownDelay() { r.skip.Do(func() { close(r.noDelay) }) }

// Shutdown makes the runner leave its task as it is and return. It does not wait.
func (r *Runner) Shutdown() { r.depart() }

// Emit adds an event to the task's.
func (r *Runner) Emit(e *structs.TaskEvent) { r.emit(e) }

func (r *Runner) emit(e *structs.TaskEvent) {
	r.rec.update(func(s *structs.TaskState) bool {
		s.Append(e)
		return true
	})
}

// current is the allocation and the task as the control plane sent them last.
func (r *Runner) current() (*structs.Allocation, *nomad.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.alloc, r.task
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

// defaultKillTimeout is Nomad's, for a task that says nothing.
const defaultKillTimeout = 5 * time.Second

// running is the invocation that runs now; nil: none.
func (r *Runner) running() *invocation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run
}

func (r *Runner) setRunning(run *invocation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run = run
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
