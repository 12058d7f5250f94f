package restart

import (
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// Policy is a task's restart block, complete.
type Policy struct {
	// Attempts is how often the task restarts within Interval; 0: never.
	Attempts int
	Interval time.Duration
	Delay    time.Duration
	// Wait is what happens when the attempts are used up: wait for the interval's
	// end (mode "delay") instead of giving up (mode "fail").
	Wait bool
	// OnSuccess: the task restarts also when it ended well.
	OnSuccess bool
}

// PolicyOf is the policy of a task: its own, else its group's. Neither: no restarts.
func PolicyOf(job *nomad.Job, group *nomad.TaskGroup, task *nomad.Task) Policy {
	p := Policy{OnSuccess: onSuccess(job, task)}
	from := task.RestartPolicy
	if from == nil {
		from = group.RestartPolicy
	}
	if from == nil {
		return p
	}
	p.Attempts = structs.Deref(from.Attempts)
	p.Interval = structs.Deref(from.Interval)
	p.Delay = structs.Deref(from.Delay)
	p.Wait = structs.Deref(from.Mode) == nomad.RestartPolicyModeDelay
	return p
}

// onSuccess: tasks of batch jobs are done when they succeed, and so are the tasks that
// run before, after or at the end of others, unless they are sidecars.
func onSuccess(job *nomad.Job, task *nomad.Task) bool {
	if l := task.Lifecycle; l != nil {
		switch l.Hook {
		case nomad.TaskLifecycleHookPrestart, nomad.TaskLifecycleHookPoststart:
			return l.Sidecar
		case nomad.TaskLifecycleHookPoststop:
			return false
		}
	}
	kind := structs.Deref(job.Type)
	return kind != nomad.JobTypeBatch && kind != nomad.JobTypeSysbatch
}
