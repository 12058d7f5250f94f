package alloc

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/runners/broadcast"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/structs"
)

// ErrUnknownTask is returned for a task that the group does not have.
var ErrUnknownTask = errors.New("alloc: unknown task")

// ErrNotRunning is returned when an allocation that has ended, or is ending, is to be
// restarted or signalled.
var ErrNotRunning = errors.New("alloc: not running")

// ErrNoDirectory is Restore's error when the allocation was started and its directory is gone.
var ErrNoDirectory = errors.New("alloc: restore: allocation directory is inaccessible")

// Runner runs one allocation. All methods may be called concurrently, in any order,
// and any number of times; Restore is called before all others, or not at all.
type Runner struct {
	cfg    Config
	logger hclog.Logger
	dir    *allocdir.Dir
	hooks  []hook
	group  []*nomad.Task // as the runner was made; the set of tasks never changes
	tasks  []*task.Runner
	byName map[string]*task.Runner
	order  *lifecycle

	broadcaster broadcast.Broadcaster
	// wake has the loop look at everything again.
	wake wake.Signal
	// preparing is done when the allocation is no longer to be prepared: it is to be
	// killed or left.
	preparing     context.Context
	stopPreparing context.CancelFunc

	reported bool // a state was reported; the loop's own
	// heard is closed when tasks that did not survive, other than poststop tasks, may start again: the control
	// plane was heard, and wants them; nil: they may at once.
	heard chan struct{}

	waitCh     chan struct{}
	shutdownCh chan struct{}
	destroyCh  chan struct{}

	mu           sync.RWMutex
	alloc        *structs.Allocation
	pending      *structs.Allocation // the newest update that was not applied; nil: none
	state        *structs.AllocationState
	failure      string // forces the client status to failed; empty: not
	stopped      string // why the node has stopped it itself; empty: it has not
	waiting      bool
	launched     bool                  // Run was called, or never will be
	shuttingDown bool                  // Shutdown was called
	destroying   bool                  // Destroy was called
	checks       *checks               // nil: none was prepared
	network      *structs.AllocNetwork // nil: it has the node's, or none yet
}

// New makes a runner of an allocation. Nothing is started or written. It fails when
// the group or a task's resources are missing from the allocation.
func New(cfg Config) (*Runner, error) {
	group := cfg.Alloc.Group()
	if group == nil {
		return nil, fmt.Errorf("alloc: failed to lookup task group %q", cfg.Alloc.TaskGroup)
	}
	if cfg.Watcher == nil {
		cfg.Watcher = NoWatcher{}
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	r := &Runner{
		cfg: cfg, alloc: cfg.Alloc, group: group.Tasks,
		logger:     cfg.Logger.With("alloc_id", cfg.Alloc.ID),
		dir:        allocdir.New(cfg.AllocsDir, cfg.Alloc.ID),
		order:      newLifecycle(group.Tasks),
		byName:     make(map[string]*task.Runner, len(group.Tasks)),
		wake:       wake.New(),
		waitCh:     make(chan struct{}),
		shutdownCh: make(chan struct{}),
		destroyCh:  make(chan struct{}),
	}
	if cfg.Heard != nil {
		r.heard = make(chan struct{})
	}
	r.preparing, r.stopPreparing = context.WithCancel(context.Background())
	r.hooks = r.buildHooks()
	for _, t := range group.Tasks {
		if err := r.addTask(t); err != nil {
			return nil, err
		}
	}
	r.state = r.compute(r.states(), r.alloc.DeploymentStatus.Copy())
	return r, nil
}

func (r *Runner) addTask(t *nomad.Task) error {
	dir, err := r.dir.Task(t.Name)
	if err != nil {
		return fmt.Errorf("alloc: failed creating runner for task %q: %w", t.Name, err)
	}
	if r.byName[t.Name] != nil {
		return fmt.Errorf("alloc: task %q is in the group twice", t.Name)
	}
	of := stageOf(t)
	var heard <-chan struct{} = r.heard
	if of == poststop {
		heard = r.cfg.Heard // the end of the allocation does not kill it
	}
	tr, err := task.New(task.Config{
		Alloc: r.alloc, Task: t.Name, Node: r.cfg.Node, Dir: dir, State: r.cfg.State,
		Dispense: r.cfg.Dispense, Network: r.networkGiven, Devices: r.cfg.Devices, HostEnv: r.cfg.HostEnv, Left: r.cfg.Left, Heard: heard, Limits: r.cfg.Limits, ReservedCores: r.cfg.ReservedCores, Logger: r.logger, Changed: r.wake.Set, Jitter: r.cfg.Jitter,
		Gate:  func() <-chan struct{} { return r.order.gate(of) },
		Hooks: r.taskHooks(t.Name), Services: r.cfg.Lookup, Variables: r.cfg.Variables, Identities: r.cfg.Identities, API: r.cfg.API, SecretsInMemory: r.cfg.SecretsInMemory, Traces: r.cfg.Traces,
	})
	if err != nil {
		return fmt.Errorf("alloc: failed creating runner for task %q: %w", t.Name, err)
	}
	r.tasks, r.byName[t.Name] = append(r.tasks, tr), tr
	if r.alloc.NoShutdownDelay {
		tr.SkipShutdownDelay()
	}
	return nil
}

// Restore reads back what an earlier agent stored of the allocation. It is called
// before Run or not at all. After an error the owner calls Fail and Destroy.
func (r *Runner) Restore() error {
	stored, err := r.cfg.State.AllocationState(r.alloc.ID)
	if err != nil {
		return fmt.Errorf("alloc: restore: %w", err)
	}
	for _, t := range r.tasks {
		if err := t.Restore(); err != nil {
			return fmt.Errorf("alloc: restore: %w", err)
		}
	}
	deployment := r.alloc.DeploymentStatus
	if stored != nil && (stored.DeploymentStatus == nil || stored.DeploymentStatus.DeploymentID == r.alloc.DeploymentID) {
		deployment = stored.DeploymentStatus
	}
	r.mu.Lock()
	if stored != nil {
		r.network = stored.Network
	}
	r.state = r.compute(r.states(), deployment.Copy())
	r.mu.Unlock()
	if r.started() && !r.state.ClientStatus.Terminal() && !r.dir.Exists() {
		return ErrNoDirectory
	}
	return nil
}

// RestoredRuns are the IDs of the tasks' runs that Restore read back. They may have
// workloads. It is called before Run, or not at all.
func (r *Runner) RestoredRuns() (ids []string) {
	for _, t := range r.tasks {
		if id := t.RestoredRun(); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// Held is why tasks are not started, by name: a run that was found goes on, and its driver
// does not take it back.
func (r *Runner) Held() map[string]string {
	held := map[string]string{}
	for _, t := range r.tasks {
		if why := t.Held(); why != "" {
			held[t.Name()] = why
		}
	}
	return held
}

func (r *Runner) setNetwork(n *structs.AllocNetwork) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.network = n
}

// networkGiven is the allocation's own network; nil: it has the node's.
func (r *Runner) networkGiven() *structs.AllocNetwork {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.network
}

// started reports whether a task of the allocation was ever prepared.
func (r *Runner) started() bool {
	for _, t := range r.tasks {
		if !t.State().StartedAt.IsZero() {
			return true
		}
	}
	return false
}

// Run runs the allocation and returns when its tasks have ended for good or the
// runner was shut down. Further calls return at once.
func (r *Runner) Run() {
	r.mu.Lock()
	launched := r.launched
	r.launched = true
	r.mu.Unlock()
	if !launched {
		r.run()
	}
}

// Update hands over the control plane's new version of the allocation. It never
// blocks: of updates that come faster than they are applied, only the one with the
// highest AllocModifyIndex is. After the run has ended it does nothing.
func (r *Runner) Update(a *structs.Allocation) {
	r.mu.Lock()
	if r.pending == nil || a.AllocModifyIndex >= r.pending.AllocModifyIndex {
		r.pending = a
	}
	r.mu.Unlock()
	if a.NoShutdownDelay {
		for _, t := range r.tasks {
			t.SkipShutdownDelay()
		}
	}
	r.wake.Set()
}

// Stop ends the allocation for good, as an update does that stops it. Its tasks' events say why. It
// does not wait, and reports whether it was the first.
func (r *Runner) Stop(why string) (first bool) {
	r.mu.Lock()
	first = r.stopped == ""
	r.stopped = why
	r.mu.Unlock()
	r.wake.Set()
	return first
}

// Fail forces the allocation's client status to failed: it could not be restored or
// set up.
func (r *Runner) Fail(description string) {
	r.mu.Lock()
	r.failure = description
	r.state = r.compute(r.states(), r.state.DeploymentStatus)
	r.mu.Unlock()
	r.wake.Set()
}

// Shutdown makes the runner leave its tasks running and return. It does not wait.
func (r *Runner) Shutdown() {
	r.mu.Lock()
	if r.shuttingDown || r.destroying {
		r.mu.Unlock()
		return
	}
	r.shuttingDown = true
	launched := r.launched
	r.launched = true
	r.mu.Unlock()
	r.stopPreparing()
	if !launched {
		close(r.waitCh)
	}
	for _, t := range r.tasks {
		t.Shutdown()
	}
	r.wake.Set()
	go func() {
		<-r.waitCh
		r.settle()
		r.broadcaster.Close()
		close(r.shutdownCh)
	}()
}

// ShutdownCh is closed when a shutdown, or the destruction, has finished.
func (r *Runner) ShutdownCh() <-chan struct{} { return r.shutdownCh }

// Destroy kills what still runs, removes the allocation's directory, and forgets it
// in the store. It does not wait. It works before, during and without Run.
func (r *Runner) Destroy() {
	r.mu.Lock()
	if r.destroying {
		r.mu.Unlock()
		return
	}
	r.destroying = true
	detached, launched := r.shuttingDown, r.launched
	r.launched = true
	r.mu.Unlock()
	r.wake.Set()
	if !launched {
		go r.run()
	}
	go r.destroy(detached)
}

// destroy waits for the run's end, which Destroy has asked for, and removes the rest.
// detached: a shutdown came first, and left the tasks as they were.
func (r *Runner) destroy(detached bool) {
	if detached {
		<-r.shutdownCh
		var all sync.WaitGroup
		for _, t := range r.tasks {
			all.Go(t.Finish)
		}
		all.Wait()
	} else {
		<-r.waitCh
	}
	r.settle()
	r.destroyHooks()
	for _, t := range r.tasks {
		t.Close()
	}
	if err := r.cfg.State.DeleteAllocation(r.alloc.ID); err != nil {
		r.logger.Error("forget the allocation", "error", err)
	}
	if !detached {
		close(r.shutdownCh)
	}
	close(r.destroyCh)
}

// settle waits for the drivers that still destroy what a kill left.
func (r *Runner) settle() {
	for _, t := range r.tasks {
		t.Settle()
	}
}

// DestroyCh is closed when everything of the allocation is gone.
func (r *Runner) DestroyCh() <-chan struct{} { return r.destroyCh }

// IsDestroyed reports whether DestroyCh is closed.
func (r *Runner) IsDestroyed() bool {
	select {
	case <-r.destroyCh:
		return true
	default:
		return false
	}
}

// WaitCh is closed when Run has returned, or never will.
func (r *Runner) WaitCh() <-chan struct{} { return r.waitCh }

// Alloc is the allocation as the control plane sent it last. It is read-only and
// never holds what happened on the node; that is AllocState.
func (r *Runner) Alloc() *structs.Allocation {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.alloc
}

// AllocState is what has become of the allocation, as a copy.
func (r *Runner) AllocState() *structs.AllocationState {
	r.mu.RLock()
	s := r.state
	r.mu.RUnlock()
	return s.Copy()
}

// AllocDir is the allocation's directory.
func (r *Runner) AllocDir() *allocdir.Dir { return r.dir }

// Listener receives the allocation's states, the newest last. The caller closes it.
// Its channel is closed when the run has ended or was shut down.
func (r *Runner) Listener() *broadcast.Listener { return r.broadcaster.Listen() }

// Waiting returns what the allocation waits for before it starts; empty: nothing.
func (r *Runner) Waiting() string {
	r.mu.RLock()
	waiting := r.waiting
	r.mu.RUnlock()
	if !waiting {
		return ""
	}
	return r.cfg.Watcher.Waiting()
}
