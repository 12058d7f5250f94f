package alloc

import (
	"maps"
	"sync/atomic"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/structs"
)

// loop is what the runner's one goroutine knows. It never waits for a task, a driver or
// the control plane: whatever happens wakes it, it looks at everything again, has done
// what is to be done, and waits for the next wake-up.
type loop struct {
	r       *Runner
	kill    *killing     // nil: nothing is to be killed
	health  *healthWatch // nil: not asked for, or decided
	expires time.Time    // of max_run_duration; zero: never
	// deregistered is closed when nobody finds the group's services any more; nil: they are
	// not to be deregistered.
	deregistered chan struct{}
	expired      bool
	running      bool // the tasks' runners were started
	heard        bool // the control plane was, since the agent began
	timer        *time.Timer
}

// run runs the allocation.
func (r *Runner) run() {
	defer close(r.waitCh)
	l := &loop{r: r, timer: time.NewTimer(time.Hour)}
	defer l.timer.Stop()
	alloc := r.Alloc()
	if r.shouldRun(alloc) {
		if d := r.AllocState().DeploymentStatus; d == nil || d.Healthy == nil {
			l.health = newHealthWatch(alloc)
		}
		l.expires = expiry(alloc)
	} else {
		l.beginKill(r.stopCause())
	}
	r.setChecks(newChecks(r, alloc))
	r.clearServices()
	defer l.awaitDeregistered()
	defer func() { r.checks.follow(nil, true) }()
	prepared := l.prepare()
	tasks := make(chan struct{}) // closed when all tasks' runners have returned
	heard := r.cfg.Heard
	l.step()
	for {
		select {
		case <-heard: // nil: never
			heard, l.heard = nil, true
		case err := <-prepared:
			prepared = nil
			l.step() // the reason was recorded by what ended the preparation
			if r.isShuttingDown() {
				l.detach()
				return
			}
			l.startTasks(err, tasks)
		case <-tasks:
			l.finish()
			return
		case <-r.wake.C():
		case <-l.timer.C:
		}
		l.step()
	}
}

// shouldRun reports whether the allocation's tasks are to run.
func (r *Runner) shouldRun(a *structs.Allocation) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return !a.Terminal() && !r.state.ClientStatus.Terminal() && !r.destroying && r.stopped == ""
}

// stopCause is why the node itself has stopped the allocation; nil: it has not.
func (r *Runner) stopCause() *killing {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.stopped == "" {
		return nil
	}
	why := r.stopped
	return &killing{reason: func(*nomad.Task) *structs.TaskEvent {
		return structs.NewTaskEvent(structs.EventKilling).WithKillReason(why)
	}}
}

func (r *Runner) isShuttingDown() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.shuttingDown
}

// prepare runs the prerun hooks in a goroutine, whose end the loop waits for. An
// allocation that is not to run is not prepared.
func (l *loop) prepare() <-chan error {
	prepared := make(chan error, 1)
	if l.kill != nil {
		prepared <- nil
		return prepared
	}
	l.setWaiting(true)
	go func() { prepared <- l.r.prerun(l.r.preparing) }()
	return prepared
}

func (l *loop) setWaiting(is bool) {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	l.r.waiting = is
}

// startTasks starts the tasks' runners. When the allocation could not be prepared, they only
// end what an earlier agent may have left running, and fail.
func (l *loop) startTasks(err error, tasks chan struct{}) {
	l.setWaiting(false)
	l.running = true
	l.health.begin(time.Now())
	if err != nil && l.kill == nil && l.r.preparing.Err() == nil {
		for _, t := range l.r.tasks {
			t.FailSetup("failed to setup alloc: " + err.Error())
		}
	}
	if l.kill != nil {
		// What did not start is not worth an order, nor what comes after it.
		l.killAll()
	}
	var left atomic.Int64
	left.Store(int64(len(l.r.tasks)))
	for _, t := range l.r.tasks {
		go func() {
			t.Run()
			if left.Add(-1) == 0 {
				close(tasks)
			}
		}()
	}
	if len(l.r.tasks) == 0 {
		close(tasks)
	}
}

// killAll kills every task that does not run yet.
func (l *loop) killAll() {
	for _, t := range l.r.tasks {
		if t.State().State == structs.TaskPending {
			t.Kill(nil)
		}
	}
}

// beginKill begins to kill the tasks; nil: for no other reason than a request. An order
// that goes on is not changed, but what it spares may be killed too.
func (l *loop) beginKill(k *killing) {
	if k == nil {
		k = &killing{}
	}
	if l.kill != nil {
		l.kill.poststop = l.kill.poststop || k.poststop
		return
	}
	alloc := l.r.Alloc()
	if delay := groupShutdownDelay(alloc); l.running && delay > 0 && !alloc.NoShutdownDelay {
		k.until = time.Now().Add(delay)
	}
	l.kill = k
	l.r.stopPreparing()
	l.beginDeregister()
}

// groupShutdownDelay is how long the group's tasks run on when they are to be killed.
func groupShutdownDelay(a *structs.Allocation) time.Duration {
	if group := a.Group(); group != nil && group.ShutdownDelay != nil {
		return *group.ShutdownDelay
	}
	return 0
}

// step looks at everything.
func (l *loop) step() {
	r := l.r
	now := time.Now()
	l.applyUpdate()
	r.mu.RLock()
	destroying, shuttingDown := r.destroying, r.shuttingDown
	r.mu.RUnlock()
	states := r.states()
	switch {
	case destroying:
		l.beginKill(&killing{poststop: true})
	case l.kill == nil && r.stopCause() != nil:
		l.beginKill(r.stopCause())
	case l.kill == nil && l.running:
		if k := killCause(r.group, states); k != nil {
			l.beginKill(k)
		}
	}
	if !l.expires.IsZero() && !now.Before(l.expires) && !l.expired && anyAlive(states) {
		l.expired = true
		l.beginKill(&killing{poststop: true, reason: func(*nomad.Task) *structs.TaskEvent {
			return structs.NewTaskEvent(structs.EventKilling).WithKillReason(expiredDescription)
		}})
	}
	if l.heard && l.kill == nil && r.heard != nil && !wake.IsClosed(r.heard) {
		close(r.heard)
	}
	if !shuttingDown {
		l.killNext(states, now)
		r.order.step(states)
	}
	r.checks.follow(states, shuttingDown || l.kill != nil)
	l.report(states, now)
	l.setTimer(now)
}

// killNext kills the tasks whose turn it is, and releases all when none is alive any more.
func (l *loop) killNext(states map[string]*structs.TaskState, now time.Time) {
	if !l.running {
		return
	}
	if l.kill != nil && l.isDeregistered() {
		for _, t := range l.kill.nextToKill(l.r.group, states, now) {
			var reason *structs.TaskEvent
			if l.kill.reason != nil {
				reason = l.kill.reason(t)
			}
			l.r.byName[t.Name].Kill(reason)
		}
	}
	for _, t := range l.r.group {
		if stageOf(t) != poststop && states[t.Name].State != structs.TaskDead {
			return
		}
	}
	for _, t := range l.r.group {
		if stageOf(t) != poststop {
			l.r.byName[t.Name].Kill(nil) // dead: it is only released
		}
	}
}

// setTimer sets the timer to what is due next.
func (l *loop) setTimer(now time.Time) {
	var next time.Time
	due := func(t time.Time) {
		if !t.IsZero() && t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if l.kill != nil {
		due(l.kill.until)
	}
	if !l.expired {
		due(l.expires)
	}
	if l.health != nil {
		_, _, at := l.health.step(l.r.group, l.r.states(), l.r.checks, now)
		due(at)
	}
	l.timer.Stop()
	if !next.IsZero() {
		l.timer.Reset(next.Sub(now))
	}
}

// finish is after the last task.
func (l *loop) finish() {
	if l.r.isShuttingDown() {
		l.detach()
		return
	}
	l.r.postrun()
	l.step()
	l.r.broadcaster.Close()
}

// detach looks once more when nothing works on the tasks any more: something may have been
// reported of them since the loop looked last, and after the shutdown nothing is written.
func (l *loop) detach() {
	for _, t := range l.r.tasks {
		t.Flush()
	}
	l.step()
}

// applyUpdate applies the newest update. A stop is an update too.
func (l *loop) applyUpdate() {
	r := l.r
	r.mu.Lock()
	next, before := r.pending, r.alloc
	r.pending = nil
	if next != nil && next.AllocModifyIndex >= before.AllocModifyIndex {
		r.alloc = next
	} else {
		next = nil
	}
	r.mu.Unlock()
	if next == nil {
		return
	}
	if !next.Terminal() {
		l.updateHealth(before, next)
		r.setChecks(r.checks.replace(before, next))
		l.expires = expiry(next)
		if l.kill == nil && l.running {
			l.updateServices()
		}
		for _, t := range r.tasks {
			t.Update(next)
		}
	}
	if next.ServerTerminal() && !before.ServerTerminal() {
		l.beginKill(nil)
	}
	if next.NoShutdownDelay && l.kill != nil {
		l.kill.until = time.Time{}
	}
}

// updateHealth watches again when the allocation has become part of another deployment or,
// where it is of none, has another version of its job.
func (l *loop) updateHealth(before, next *structs.Allocation) {
	sameJob := structs.Deref(before.Job.JobModifyIndex) == structs.Deref(next.Job.JobModifyIndex)
	if before.DeploymentID == next.DeploymentID && (next.DeploymentID != "" || sameJob) {
		return
	}
	l.r.mu.Lock()
	s := *l.r.state
	s.DeploymentStatus = nil
	l.r.state = &s
	l.r.mu.Unlock()
	undecided := next.Copy()
	undecided.DeploymentStatus = nil // it is of the version before
	l.health = newHealthWatch(undecided)
	if l.running {
		l.health.begin(time.Now())
	}
}

// expiry is when max_run_duration is over, counted from the allocation's creation.
func expiry(a *structs.Allocation) time.Time {
	group := a.Group()
	if group == nil || group.MaxRunDuration == nil || *group.MaxRunDuration <= 0 || a.CreateTime == 0 {
		return time.Time{}
	}
	return time.Unix(0, a.CreateTime).Add(*group.MaxRunDuration)
}

func anyAlive(states map[string]*structs.TaskState) bool {
	for _, s := range states {
		if s.State != structs.TaskDead {
			return true
		}
	}
	return false
}

// states are the tasks' states, by name. They are read-only.
func (r *Runner) states() map[string]*structs.TaskState {
	states := make(map[string]*structs.TaskState, len(r.tasks))
	for _, t := range r.tasks {
		states[t.Name()] = t.State()
	}
	return states
}

// compute is the allocation's state as its tasks' states have it. It is called by the
// loop, or under r.mu before there is one.
func (r *Runner) compute(states map[string]*structs.TaskState, d *structs.DeploymentStatus) *structs.AllocationState {
	s := &structs.AllocationState{ID: r.alloc.ID, TaskStates: states, DeploymentStatus: d, Network: r.network}
	s.ClientStatus, s.ClientDescription = structs.ClientStatusOf(s.TaskStates)
	if s.ClientStatus == "" {
		s.ClientStatus = structs.ClientPending
	}
	if r.failure != "" {
		s.ClientStatus, s.ClientDescription = structs.ClientFailed, r.failure
	}
	return s
}

const expiredDescription = "allocation exceeded max_run_duration"

// report computes the allocation's state and, if it is another one, reports it.
func (l *loop) report(states map[string]*structs.TaskState, now time.Time) {
	r := l.r
	r.mu.Lock()
	before := r.state
	next := r.compute(states, before.DeploymentStatus)
	if l.expired && next.ClientStatus.Terminal() && r.failure == "" {
		next.ClientStatus, next.ClientDescription = structs.ClientComplete, expiredDescription
	}
	why := l.decideHealth(next, now)
	r.state = next
	r.mu.Unlock()
	if len(why) > 0 {
		next = l.withReasons(next, why)
	}
	r.publish(before, next)
}

// withReasons makes the reasons for an allocation's not being healthy events of its tasks,
// and returns its state with them: who sees the one sees the other.
func (l *loop) withReasons(next *structs.AllocationState, why []unhealthy) *structs.AllocationState {
	r := l.r
	for _, t := range why {
		r.byName[t.task].Emit(structs.NewTaskEvent(structs.EventAllocUnhealthy).WithMessage(t.why))
		r.byName[t.task].Flush()
	}
	told := *next
	told.TaskStates = r.states()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = &told
	return &told
}

// publish makes a new state durable, as far as the tasks' own states do not contain it
// already, and reports it.
func (r *Runner) publish(before, next *structs.AllocationState) {
	statusSame := before.ClientStatus == next.ClientStatus && before.ClientDescription == next.ClientDescription &&
		before.DeploymentStatus == next.DeploymentStatus
	if !statusSame {
		stored := *next
		stored.TaskStates = nil
		if err := r.cfg.State.PutAllocationState(&stored); err != nil {
			r.logger.Error("allocation state is not durable", "error", err)
		}
	}
	// Task states are replaced, never changed: the same pointers are the same states.
	if statusSame && maps.Equal(before.TaskStates, next.TaskStates) && r.setReported() {
		return
	}
	r.cfg.StateUpdated(next)
	_ = r.broadcaster.Send(next) // closed: there are no listeners any more
}

// setReported reports whether a state was reported before; from now on one was.
func (r *Runner) setReported() bool {
	was := r.reported
	r.reported = true
	return was
}

type unhealthy struct{ task, why string }

// decideHealth decides the allocation's health, once, and gives what is to be an event of
// its tasks. It is called under r.mu.
func (l *loop) decideHealth(next *structs.AllocationState, now time.Time) []unhealthy {
	if l.health == nil || l.kill != nil && !next.ClientStatus.Terminal() {
		return nil
	}
	healthy, why, _ := l.health.step(l.r.group, next.TaskStates, l.r.checks, now)
	if healthy == nil {
		return nil
	}
	l.health = nil
	d := &structs.DeploymentStatus{Healthy: healthy, Timestamp: now.UTC(), DeploymentID: l.r.alloc.DeploymentID}
	if next.DeploymentStatus != nil {
		d.Canary = next.DeploymentStatus.Canary
	}
	next.DeploymentStatus = d
	if *healthy || l.r.alloc.ServerTerminal() {
		return nil
	}
	var out []unhealthy
	for _, t := range l.r.group {
		if s := next.TaskStates[t.Name]; s.Failed || why != whyTaskFailed && isMissing(t, s) || why == whyChecks && l.r.checks.failsFor(t.Name) {
			out = append(out, unhealthy{t.Name, why})
		}
	}
	return out
}

// isMissing reports whether a task that should run, or have run, does not and has not.
func isMissing(t *nomad.Task, s *structs.TaskState) bool {
	return stageOf(t) != poststop && s.State != structs.TaskRunning && !s.Successful()
}
