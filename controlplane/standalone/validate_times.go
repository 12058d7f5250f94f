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
	if g.MaxRunDuration != nil && *j.Type != nomad.JobTypeBatch && *j.Type != nomad.JobTypeSysbatch {
		v.fault("max_run_duration: Job type %q does not allow max_run_duration", *j.Type)
	}
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

func (v *validation) reschedule(j *nomad.Job, p *nomad.ReschedulePolicy) {
	if p == nil {
		return
	}
	if *j.Type == nomad.JobTypeSystem || *j.Type == nomad.JobTypeSysbatch {
		v.fault("reschedule: %s jobs should not have a reschedule policy", *j.Type)
		return
	}
	attempts, unlimited, interval := structs.Deref(p.Attempts), structs.Deref(p.Unlimited), structs.Deref(p.Interval)
	switch {
	case attempts < 0:
		v.fault("reschedule: attempts: it can't be negative: it is %d", attempts)
	case attempts > 0 && unlimited:
		v.fault("reschedule: Reschedule Policy with Attempts = %d, Interval = %v, and Unlimited = true is ambiguous: If Attempts >0, Unlimited cannot also be set to true", attempts, interval)
	case attempts > 0 && interval <= 0:
		v.fault("reschedule: interval: Interval must be a non zero value if Attempts > 0")
	case attempts > 0 && interval < minRescheduleInterval:
		v.fault("reschedule: interval: Interval cannot be less than %v (got %v)", minRescheduleInterval, interval)
	}
	if unlimited || attempts > 0 {
		v.rescheduleDelay(p)
	}
}

func (v *validation) rescheduleDelay(p *nomad.ReschedulePolicy) {
	delay := structs.Deref(p.Delay)
	if delay < minRescheduleDelay {
		v.fault("reschedule: delay: Delay cannot be less than %v (got %v)", minRescheduleDelay, delay)
	}
	switch function := structs.Deref(p.DelayFunction); function {
	case "constant":
		if attempts, interval := structs.Deref(p.Attempts), structs.Deref(p.Interval); !structs.Deref(p.Unlimited) && exceeds(attempts, delay, interval) {
			v.fault("reschedule: interval: Nomad can only make %d attempts in %v with initial delay %v and delay function %q", interval/max(1, delay), interval, delay, function)
		}
	case "exponential", "fibonacci":
		if structs.Deref(p.MaxDelay) < delay {
			v.fault("reschedule: max_delay: Max Delay cannot be less than Delay %v (got %v)", delay, structs.Deref(p.MaxDelay))
		}
	default:
		v.fault("reschedule: delay_function: Invalid delay function %q, must be one of [constant exponential fibonacci]", function)
	}
}

// exceeds reports whether so many delays are longer than an interval.
func exceeds(attempts int, delay, interval time.Duration) bool {
	return attempts > 0 && delay > interval/time.Duration(attempts)
}
