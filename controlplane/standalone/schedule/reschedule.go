package schedule

import (
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// next returns when a failed allocation is to be replaced under its group's policy, and
// what is to be remembered of it; false: it is not.
func next(p *nomad.ReschedulePolicy, a *Alloc) (at time.Time, r Reschedule, ok bool) {
	if p == nil || a.Job != nil && perNode(a.Job) {
		return time.Time{}, Reschedule{}, false
	}
	failed := endOf(a)
	if !structs.Deref(p.Unlimited) {
		used := 0
		for _, past := range a.Reschedules {
			if time.Unix(0, past.Time).After(failed.Add(-structs.Deref(p.Interval))) {
				used++
			}
		}
		if used >= min(structs.Deref(p.Attempts), MaxReschedules) {
			return time.Time{}, Reschedule{}, false
		}
	}
	r.Delay = delay(p, a, failed)
	return failed.Add(r.Delay), r, true
}

// delay returns how long to wait before the next replacement. After an allocation
// that lived longer than the longest delay it starts over.
func delay(p *nomad.ReschedulePolicy, a *Alloc, failed time.Time) time.Duration {
	base, longest := structs.Deref(p.Delay), structs.Deref(p.MaxDelay)
	n := len(a.Reschedules)
	if structs.Deref(p.DelayFunction) == "constant" || n == 0 || base <= 0 ||
		longest > 0 && failed.Sub(time.Unix(0, a.CreateTime)) > longest {
		return base
	}
	previous := a.Reschedules[n-1].Delay
	d := 2 * previous
	if structs.Deref(p.DelayFunction) == "fibonacci" {
		d = previous
		if n > 1 {
			d += a.Reschedules[n-2].Delay
		}
	}
	if d = max(d, base); longest > 0 {
		d = min(d, longest)
	}
	return d
}

// endOf returns when an allocation ended: when its last task did, as far as known.
func endOf(a *Alloc) (end time.Time) {
	for _, s := range a.TaskStates {
		if s.FinishedAt.After(end) {
			end = s.FinishedAt
		}
	}
	if end.IsZero() {
		end = time.Unix(0, a.ModifyTime)
	}
	return end
}
