package alloc

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/runners/check"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/runners/taskenv"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// checks runs the checks of an allocation's services: each in a goroutine of its own, at
// its interval, one run at a time, while the task that it is of runs. Its methods but
// results are the loop's.
type checks struct {
	r   *Runner
	all []*checker
}

// checker is a check with what it last found.
type checker struct {
	*check.Check
	r      *Runner
	target check.Target
	run    *checking // nil: it does not run

	mu     sync.Mutex
	result structs.CheckResult
	since  time.Time // when the status became what it is
}

// checking is a check at work, for one run of its task.
type checking struct {
	since  time.Time // the task's start
	cancel context.CancelFunc
	done   chan struct{}
}

// newChecks prepares the checks of an allocation. None runs.
func newChecks(r *Runner, a *structs.Allocation) *checks {
	c := &checks{r: r}
	group := a.Group()
	if group == nil {
		return c
	}
	all, err := check.OfGroup(group)
	if err != nil {
		r.logger.Warn("checks that cannot run", "error", err)
	}
	for _, one := range all {
		of := a.Task(one.Task)
		if of == nil {
			of = &nomad.Task{}
		}
		k := &checker{Check: one, r: r, target: check.Target{
			AllocID: a.ID, Name: a.Name, Ports: a.Resources.Ports, Env: taskenv.NewBuilder(r.cfg.Node(), a, of).Build(),
		}}
		k.target.Exec = k.exec
		k.result = k.Pending(k.target)
		c.all = append(c.all, k)
	}
	return c
}

// follow runs the checks whose tasks run, and ends the others; paused ends all.
func (c *checks) follow(states map[string]*structs.TaskState, paused bool) {
	for _, k := range c.all {
		since, runs := runningSince(k.Task, states)
		if k.run != nil && (paused || !runs || !k.run.since.Equal(since)) {
			k.end()
		}
		if k.run == nil && runs && !paused {
			k.begin(since)
		}
	}
}

// runningSince is when a task began to run; for a group's, the first of those that run.
func runningSince(name string, states map[string]*structs.TaskState) (since time.Time, runs bool) {
	for _, s := range states {
		if s.State == structs.TaskRunning && (!runs || s.StartedAt.Before(since)) {
			since, runs = s.StartedAt, true
		}
	}
	if name == "" {
		return since, runs
	}
	s := states[name]
	if s == nil || s.State != structs.TaskRunning {
		return time.Time{}, false
	}
	return s.StartedAt, true
}

// replace gives the checks of another version of the allocation, if they are others.
func (c *checks) replace(before, next *structs.Allocation) *checks {
	fresh := newChecks(c.r, next)
	ids := func(c *checks, id string) (out []string) {
		for _, k := range c.all {
			out = append(out, k.ID(id))
		}
		return out
	}
	if slices.Equal(ids(c, before.ID), ids(fresh, next.ID)) {
		return c
	}
	c.follow(nil, true)
	return fresh
}

// healthy reports whether all checks that health depends on succeed, and since when.
func (c *checks) healthy() (since time.Time, all bool) {
	for _, k := range c.all {
		if k.Mode != structs.CheckHealthiness {
			continue
		}
		k.mu.Lock()
		status, at := k.result.Status, k.since
		k.mu.Unlock()
		if status != structs.CheckSuccess {
			return time.Time{}, false
		}
		if at.After(since) {
			since = at
		}
	}
	return since, true
}

// failsFor reports whether a check of the task, or of the group, does not succeed.
func (c *checks) failsFor(name string) bool {
	return slices.ContainsFunc(c.all, func(k *checker) bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.Mode == structs.CheckHealthiness && k.result.Status != structs.CheckSuccess && (k.Task == name || k.Task == "")
	})
}

// results are the newest results, by ID.
func (c *checks) results() map[string]structs.CheckResult {
	out := make(map[string]structs.CheckResult, len(c.all))
	for _, k := range c.all {
		k.mu.Lock()
		out[k.result.ID] = k.result
		k.mu.Unlock()
	}
	return out
}

// CheckResults are the newest results of the allocation's checks, by ID.
func (r *Runner) CheckResults() map[string]structs.CheckResult {
	r.mu.RLock()
	c := r.checks
	r.mu.RUnlock()
	if c == nil {
		return map[string]structs.CheckResult{}
	}
	return c.results()
}

// setChecks puts checks in the place of those before. Only the loop does, which reads
// them without the lock.
func (r *Runner) setChecks(c *checks) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checks = c
}

func (k *checker) begin(since time.Time) {
	k.set(k.Pending(k.target))
	ctx, cancel := context.WithCancel(context.Background())
	run := &checking{since: since, cancel: cancel, done: make(chan struct{})}
	k.run = run
	go func() {
		defer close(run.done)
		k.work(ctx, since)
	}()
}

// end ends the run and waits for that: a probe ends with its context.
func (k *checker) end() {
	k.run.cancel()
	<-k.run.done
	k.run = nil
}

// work runs the check until ctx ends.
func (k *checker) work(ctx context.Context, since time.Time) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		result := k.Probe(ctx, k.target)
		if ctx.Err() != nil {
			return
		}
		k.set(result)
		if !k.Fails(result) {
			failures = 0
		} else if k.Restart != nil && time.Since(since) >= k.Restart.Grace {
			if failures++; failures >= k.Restart.Limit {
				k.restart()
				failures = 0
			}
		}
		timer.Reset(k.Interval)
	}
}

// exec runs a command in the check's task.
func (k *checker) exec(ctx context.Context, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	t := k.r.byName[k.Task]
	if t == nil {
		return nil, task.ErrNotRunning
	}
	return t.Exec(ctx, spec)
}

// restart restarts the check's task, or all that run when it is of the group, as a failure.
// One that is not there to be restarted is on its way anyway.
func (k *checker) restart() {
	req := task.RestartRequest{Reason: fmt.Sprintf("healthcheck: check %q unhealthy", k.Name), Failure: true}
	for name, t := range k.r.byName {
		if k.Task == "" || k.Task == name {
			_ = t.Restart(req)
		}
	}
}

// set keeps a result and, if it is another one, wakes the loop.
func (k *checker) set(result structs.CheckResult) {
	k.mu.Lock()
	changed := k.result.Status != result.Status || k.since.IsZero()
	if changed {
		k.since = time.Now()
	}
	k.result = result
	k.mu.Unlock()
	if changed {
		k.r.wake.Set()
	}
}
