package standalone

import (
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// migrate has Nomad's bounds. Only allocations of services move one after another.
func (v *validation) migrate(j *nomad.Job, m *nomad.MigrateStrategy) {
	if m == nil {
		return
	}
	v.in("migrate", func() {
		if *j.Type != nomad.JobTypeService {
			v.fault("Job type %q does not allow migrate block", *j.Type)
			return
		}
		switch check := structs.Deref(m.HealthCheck); check {
		case "checks", "task_states":
		case "":
			v.fault("health_check: Missing HealthCheck")
		default:
			v.fault("health_check: Invalid HealthCheck: %q (it is one of checks, task_states)", check)
		}
		if n := structs.Deref(m.MaxParallel); n < 0 {
			v.fault("max_parallel: MaxParallel must be >= 0 but found %d", n)
		}
		healthy, deadline := structs.Deref(m.MinHealthyTime), structs.Deref(m.HealthyDeadline)
		if healthy < 0 {
			v.fault("min_healthy_time: MinHealthyTime is %s and must be >= 0", healthy)
		}
		if deadline < 0 {
			v.fault("healthy_deadline: HealthyDeadline is %s and must be >= 0", deadline)
		}
		if healthy > deadline {
			v.fault("min_healthy_time: MinHealthyTime must be less than HealthyDeadline: %s > %s", healthy, deadline)
		}
	})
}

// disconnect has Nomad's bounds, although there is nothing to be apart from.
func (v *validation) disconnect(j *nomad.Job, d *nomad.DisconnectStrategy) {
	if d == nil {
		return
	}
	v.in("disconnect", func() {
		lost, stop := d.LostAfter, d.StopOnClientAfter
		switch {
		case structs.Deref(lost) != 0 && stop != nil:
			v.fault("Disconnect cannot be configured with both lost_after and stop_after")
		case structs.Deref(lost) < 0:
			v.fault("lost_after cannot be a negative duration: it is %s", *lost)
		case structs.Deref(stop) < 0:
			v.fault("stop_after cannot be a negative duration: it is %s", *stop)
		case stop != nil && *j.Type != nomad.JobTypeService && *j.Type != nomad.JobTypeBatch:
			v.fault("stop_after can only be used with service or batch job types")
		}
		kept := structs.Deref(d.Reconcile)
		if !slices.Contains([]string{"", nomad.ReconcileOptionKeepOriginal, nomad.ReconcileOptionKeepReplacement, nomad.ReconcileOptionBestScore, nomad.ReconcileOptionLongestRunning}, kept) {
			v.fault("reconcile option is invalid: %s", kept)
		}
	})
}
