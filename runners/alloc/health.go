package alloc

import (
	"fmt"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// Nomad's defaults of the update and migrate blocks.
const (
	defaultMinHealthy = 10 * time.Second
	defaultDeadline   = 5 * time.Minute
)

// healthWatch decides whether an allocation has become healthy: all its tasks that are
// to stay have run for long enough, before the deadline.
type healthWatch struct {
	minHealthy time.Duration
	deadline   time.Time
}

// newHealthWatch is the watch for an allocation; nil: nobody asks for its health.
func newHealthWatch(a *structs.Allocation, now time.Time) *healthWatch {
	kind := value(a.Job.Type)
	group := a.Group()
	if kind != api.JobTypeService && kind != api.JobTypeSystem || group == nil {
		return nil
	}
	if a.DeploymentStatus != nil && a.DeploymentStatus.Healthy != nil {
		return nil
	}
	minHealthy, deadline := defaultMinHealthy, defaultDeadline
	var m, d *time.Duration
	if u := group.Update; a.DeploymentID != "" && u != nil {
		if value(u.HealthCheck) == "manual" {
			return nil
		}
		m, d = u.MinHealthyTime, u.HealthyDeadline
	} else if g := group.Migrate; g != nil {
		m, d = g.MinHealthyTime, g.HealthyDeadline
	}
	if m != nil {
		minHealthy = max(0, *m)
	}
	if d != nil && *d > 0 {
		deadline = *d
	}
	return &healthWatch{minHealthy: minHealthy, deadline: now.Add(deadline)}
}

// step judges the tasks' states. Without a verdict, next is when to ask again at the
// latest; why is what unhealthy tasks are told.
func (h *healthWatch) step(tasks []*api.Task, states map[string]*structs.TaskState, now time.Time) (healthy *bool, why string, next time.Time) {
	yes, no := true, false
	var since time.Time
	running := true
	for _, t := range tasks {
		s := states[t.Name]
		if s.Failed {
			return &no, "Unhealthy because of failed task", time.Time{}
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
	if running && !now.Before(since.Add(h.minHealthy)) {
		return &yes, "", time.Time{}
	}
	if !now.Before(h.deadline) {
		why = "Task not running by deadline"
		if running {
			why = fmt.Sprintf("Task not running for min_healthy_time of %v by deadline", h.minHealthy)
		}
		return &no, why, time.Time{}
	}
	next = h.deadline
	if due := since.Add(h.minHealthy); running && due.Before(next) {
		next = due
	}
	return nil, "", next
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
