package schedule

import (
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// Replaceable reports whether an allocation is replaced under its group's policy if it fails, at
// some time: its attempts are not used up.
func Replaceable(a *Alloc) bool {
	g := a.Job.LookupTaskGroup(a.TaskGroup)
	if g == nil {
		return false
	}
	_, _, ok := next(g.ReschedulePolicy, a)
	return ok
}

// next returns when a failed allocation is to be replaced under its group's policy, and
// what is to be remembered of it; false: it is not.
func next(p *nomad.ReschedulePolicy, a *Alloc) (at time.Time, r structs.Reschedule, ok bool) {
	if p == nil || a.Job != nil && PerNode(a.Job) {
		return time.Time{}, structs.Reschedule{}, false
	}
	failed := endOf(a)
	if !structs.Deref(p.Unlimited) {
		used := 0
		for _, past := range a.Reschedules {
			if time.Unix(0, past.Time).After(failed.Add(-structs.Deref(p.Interval))) {
				used++
			}
		}
		if used >= min(structs.Deref(p.Attempts), maxReschedules) {
			return time.Time{}, structs.Reschedule{}, false
		}
	}
	r = structs.Reschedule{Delay: delay(p, a, failed), PreviousAllocation: a.ID, PreviousNode: a.NodeID}
	return failed.Add(r.Delay), r, true
}

// delay returns how long to wait before the next replacement. It grows up to the longest,
// and starts over after an allocation that lived for longer than that.
func delay(p *nomad.ReschedulePolicy, a *Alloc, failed time.Time) time.Duration {
	base, longest := structs.Deref(p.Delay), structs.Deref(p.MaxDelay)
	n := len(a.Reschedules)
	if structs.Deref(p.DelayFunction) == "constant" || n == 0 || base <= 0 {
		return base
	}
	last := a.Reschedules[n-1]
	d := 2 * last.Delay
	if structs.Deref(p.DelayFunction) == "fibonacci" {
		d = last.Delay
		if n > 1 && a.Reschedules[n-2].Delay <= last.Delay { // else it started over
			d += a.Reschedules[n-2].Delay
		}
	}
	switch d = max(d, base); {
	case longest <= 0 || d <= longest:
		return d
	case failed.Sub(time.Unix(0, last.Time)) > longest:
		return base
	}
	return longest
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
