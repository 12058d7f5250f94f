package alloc

import (
	"fmt"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// Nomad's defaults of the update and migrate blocks.
const (
	defaultMinHealthy = 10 * time.Second
	defaultDeadline   = 5 * time.Minute
)

// healthWatch decides whether an allocation has become healthy: all its tasks that are
// to stay have run, and its checks have succeeded, for long enough, before the deadline.
type healthWatch struct {
	minHealthy time.Duration
	within     time.Duration // of the start of the tasks
	deadline   time.Time     // zero: the tasks are not to start yet
	byChecks   bool          // the checks count
}

// Why an allocation is not healthy, in Nomad's words.
const (
	whyTaskFailed = "Unhealthy because of failed task"
	whyNotRunning = "Task not running by deadline"
	whyChecks     = "Services not healthy by deadline"
)

// newHealthWatch is the watch for an allocation; nil: its health is not asked for, or for
// a person to decide. Also what is of no deployment is watched, so that those who have
// started it learn whether it works.
func newHealthWatch(a *structs.Allocation) *healthWatch {
	kind := structs.Deref(a.Job.Type)
	group := a.Group()
	if kind != nomad.JobTypeService && kind != nomad.JobTypeSystem || group == nil {
		return nil
	}
	if a.DeploymentStatus != nil && a.DeploymentStatus.Healthy != nil {
		return nil
	}
	minHealthy, deadline := defaultMinHealthy, defaultDeadline
	var m, d *time.Duration
	by := ""
	if u := group.Update; u != nil {
		if structs.Deref(u.HealthCheck) == "manual" {
			return nil
		}
		m, d, by = u.MinHealthyTime, u.HealthyDeadline, structs.Deref(u.HealthCheck)
	} else if g := group.Migrate; g != nil {
		m, d, by = g.MinHealthyTime, g.HealthyDeadline, structs.Deref(g.HealthCheck)
	}
	if m != nil {
		minHealthy = max(0, *m)
	}
	if d != nil && *d > 0 {
		deadline = *d
	}
	return &healthWatch{minHealthy: minHealthy, within: deadline, byChecks: by != "task_states"}
}

// begin begins the time until the deadline: what the allocation has waited for before its
// tasks may start does not count.
func (h *healthWatch) begin(now time.Time) {
	if h != nil {
		h.deadline = now.Add(h.within)
	}
}

// step decides by the tasks' states and the checks'. Undecided, next is when to ask
// again at the latest; why is for the events of unhealthy tasks.
func (h *healthWatch) step(tasks []*nomad.Task, states map[string]*structs.TaskState, c *checks, now time.Time) (healthy *bool, why string, next time.Time) {
	yes, no := true, false
	var since time.Time
	running := true
	for _, t := range tasks {
		s := states[t.Name]
		if s.Failed {
			return &no, whyTaskFailed, time.Time{}
		}
		if stageOf(t) == poststop || stageOf(t) != mainTask && !sidecar(t) && s.Successful() {
			continue
		}
		if s.State != structs.TaskRunning {
			running = false
			continue
		}
		if s.StartedAt.After(since) {
			since = s.StartedAt
		}
	}
	answering := true
	if h.byChecks && running {
		var at time.Time
		if at, answering = c.healthy(); at.After(since) {
			since = at
		}
	}
	if running && answering && !now.Before(since.Add(h.minHealthy)) {
		return &yes, "", time.Time{}
	}
	if !h.deadline.IsZero() && !now.Before(h.deadline) {
		switch why = whyNotRunning; {
		case !answering:
			why = whyChecks
		case running:
			why = fmt.Sprintf("Task not running for min_healthy_time of %v by deadline", h.minHealthy)
		}
		return &no, why, time.Time{}
	}
	next = h.deadline
	if due := since.Add(h.minHealthy); running && answering && (next.IsZero() || due.Before(next)) {
		next = due
	}
	return nil, "", next
}
