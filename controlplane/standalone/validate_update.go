package standalone

import (
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// update has Nomad's bounds. The block is canonicalised.
func (v *validation) update(j *nomad.Job, u *nomad.UpdateStrategy) {
	if u == nil {
		return
	}
	v.in("update", func() {
		if *j.Type == nomad.JobTypeBatch || *j.Type == nomad.JobTypeSysbatch {
			v.fault("Job type %q does not allow update block", *j.Type)
			return
		}
		v.updateCounts(u)
		v.updateTimes(u)
	})
}

func (v *validation) updateCounts(u *nomad.UpdateStrategy) {
	if check := structs.Deref(u.HealthCheck); !slices.Contains([]string{"checks", "task_states", "manual"}, check) {
		v.fault("health_check: Invalid health check given: %q (it is one of checks, task_states, manual)", check)
	}
	if n := structs.Deref(u.MaxParallel); n < 0 {
		v.fault("max_parallel: Max parallel can not be less than zero: %d < 0", n)
	}
	switch n := structs.Deref(u.Canary); {
	case n < 0:
		v.fault("canary: Canary count can not be less than zero: %d < 0", n)
	case n > maxCount:
		v.fault("canary: a job has at most %d allocations: it is %d", maxCount, n)
	case n == 0 && structs.Deref(u.AutoPromote):
		v.fault("auto_promote: Auto Promote requires a Canary count greater than zero")
	}
}

func (v *validation) updateTimes(u *nomad.UpdateStrategy) {
	healthy, deadline, progress := structs.Deref(u.MinHealthyTime), structs.Deref(u.HealthyDeadline), structs.Deref(u.ProgressDeadline)
	if healthy < 0 {
		v.fault("min_healthy_time: Minimum healthy time may not be less than zero: %s", healthy)
	}
	switch {
	case deadline <= 0:
		v.fault("healthy_deadline: Healthy deadline must be greater than zero: %s", deadline)
	case healthy >= deadline:
		v.fault("min_healthy_time: Minimum healthy time must be less than healthy deadline: %s > %s", healthy, deadline)
	}
	switch {
	case progress < 0:
		v.fault("progress_deadline: Progress deadline must be zero or greater: %s", progress)
	case progress > 0 && deadline >= progress:
		v.fault("healthy_deadline: Healthy deadline must be less than progress deadline: %s > %s", deadline, progress)
	}
	if stagger := structs.Deref(u.Stagger); stagger <= 0 {
		v.fault("stagger: Stagger must be greater than zero: %s", stagger)
	}
}
