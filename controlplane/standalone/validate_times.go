package standalone

import (
	"reflect"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// Nomad's least times: what is shorter wears a machine out.
const (
	minRestartInterval    = 5 * time.Second
	minRescheduleDelay    = 5 * time.Second
	minRescheduleInterval = 15 * time.Second
)

// groupTimes has Nomad's bounds.
func (v *validation) groupTimes(j *nomad.Job, g *nomad.TaskGroup) {
	if structs.Deref(g.ShutdownDelay) < 0 {
		v.fault("shutdown_delay: ShutdownDelay must be a positive value: it is %s", *g.ShutdownDelay)
	}
	if g.MaxRunDuration != nil && *g.MaxRunDuration <= 0 {
		v.fault("max_run_duration: MaxRunDuration must be greater than zero: it is %s", *g.MaxRunDuration)
	}
	if g.MaxRunDuration != nil && *j.Type != nomad.JobTypeBatch && *j.Type != nomad.JobTypeSysbatch {
		v.fault("max_run_duration: Job type %q does not allow max_run_duration", *j.Type)
	}
	v.migrate(j, g.Migrate)
	v.disconnect(j, g.Disconnect)
}

// taskTimes refuses, besides, a task that may take longer to end than its group's deployment.
func (v *validation) taskTimes(g *nomad.TaskGroup, t *nomad.Task) {
	if !reflect.DeepEqual(t.RestartPolicy, g.RestartPolicy) { // else it has the group's
		v.restart(t.RestartPolicy)
	}
	kill := structs.Deref(t.KillTimeout)
	if kill < 0 {
		v.fault("kill_timeout: KillTimeout must be a positive value: it is %s", kill)
	}
	if t.ShutdownDelay < 0 {
		v.fault("shutdown_delay: ShutdownDelay must be a positive value: it is %s", t.ShutdownDelay)
	}
	if g.Update == nil {
		return
	}
	if progress := structs.Deref(g.Update.ProgressDeadline); progress > 0 && kill > progress {
		v.fault("kill_timeout: KillTimeout (%s) longer than the group's ProgressDeadline (%s)", kill, progress)
	}
}

func (v *validation) restart(p *nomad.RestartPolicy) {
	if p == nil {
		return
	}
	mode, attempts := structs.Deref(p.Mode), structs.Deref(p.Attempts)
	interval, delay := structs.Deref(p.Interval), structs.Deref(p.Delay)
	switch {
	case mode != nomad.RestartPolicyModeDelay && mode != nomad.RestartPolicyModeFail:
		v.fault("restart: mode: Unsupported restart mode: %q (delay or fail)", mode)
	case attempts == 0 && mode == nomad.RestartPolicyModeDelay:
		v.fault("restart: Restart policy %q with %d attempts is ambiguous", nomad.RestartPolicyModeDelay, 0)
	}
	if attempts < 0 {
		v.fault("restart: attempts: it can't be negative: it is %d", attempts)
	}
	switch {
	case delay < 0:
		v.fault("restart: delay: it can't be negative: it is %s", delay)
	case interval < minRestartInterval:
		v.fault("restart: interval: Interval can not be less than %v (got %v)", minRestartInterval, interval)
	case exceeds(attempts, delay, interval):
		v.fault("restart: Nomad can't restart the TaskGroup %d times in an interval of %v with a delay of %v", attempts, interval, delay)
	}
}

// exceeds reports whether so many delays are longer than an interval.
func exceeds(attempts int, delay, interval time.Duration) bool {
	return attempts > 0 && delay > interval/time.Duration(attempts)
}
