package standalone

import (
	"fmt"
	"math"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

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

// rescheduleDelay refuses, besides, an interval that has no room for all attempts.
func (v *validation) rescheduleDelay(p *nomad.ReschedulePolicy) {
	delay, most, function := structs.Deref(p.Delay), structs.Deref(p.MaxDelay), structs.Deref(p.DelayFunction)
	if delay < minRescheduleDelay {
		v.fault("reschedule: delay: Delay cannot be less than %v (got %v)", minRescheduleDelay, delay)
	}
	ceiling := ""
	switch function {
	case "constant":
	case "exponential", "fibonacci":
		if most < delay {
			v.fault("reschedule: max_delay: Max Delay cannot be less than Delay %v (got %v)", delay, most)
			return
		}
		ceiling = fmt.Sprintf(", and delay ceiling %v", most)
	default:
		v.fault("reschedule: delay_function: Invalid delay function %q, must be one of [constant exponential fibonacci]", function)
		return
	}
	attempts, interval := structs.Deref(p.Attempts), structs.Deref(p.Interval)
	if structs.Deref(p.Unlimited) || delay < minRescheduleDelay {
		return
	}
	made, needed := delaysOf(p).within(attempts, interval)
	if made == attempts {
		return
	}
	with := " and"
	if ceiling != "" {
		with = ","
	}
	v.fault("reschedule: interval: Nomad can only make %d attempts in %v with initial delay %v%s delay function %q%s. Set the interval to at least %v to accommodate %d attempts",
		made, interval, delay, with, function, ceiling, needed, attempts)
}

// delays are those of a reschedule policy, by what an interval has to have room for. It is
// measured as Nomad does it: what grows by the last delay alone, not by their sum.
type delays struct {
	grow    []time.Duration // what so many attempts take, until the delay reaches its ceiling
	base    time.Duration   // what those take that come before more of the same length
	step    time.Duration   // what each attempt takes that comes after those of grow
	reached bool            // an interval that just is reached has room
}

// delaysOf returns those of a policy whose delay is above zero, and not above its ceiling.
func delaysOf(p *nomad.ReschedulePolicy) delays {
	delay, most := structs.Deref(p.Delay), structs.Deref(p.MaxDelay)
	switch structs.Deref(p.DelayFunction) {
	case "exponential":
		d := delays{step: most}
		for ; delay <= most/2; delay *= 2 {
			d.grow = append(d.grow, delay)
		}
		d.grow = append(d.grow, delay)
		d.base = delay
		return d
	case "fibonacci":
		d := delays{grow: []time.Duration{delay, delay}, step: most, reached: true}
		for last, next := delay, delay; next <= most-last; {
			last, next = next, last+next
			d.grow = append(d.grow, next)
		}
		return d
	default:
		return delays{step: delay, reached: true}
	}
}

// within returns how many of some attempts an interval has room for, and how long it has to
// be for all of them.
func (d delays) within(attempts int, interval time.Duration) (made int, needed time.Duration) {
	if !d.reached {
		interval--
	}
	grow := d.grow[:min(attempts, len(d.grow))]
	for _, taken := range grow {
		if taken <= interval {
			made++
		}
	}
	rest := attempts - len(grow)
	if rest == 0 {
		return made, grow[len(grow)-1]
	}
	if made == len(grow) {
		made += min(rest, int(max(0, interval-d.base)/d.step))
	}
	if time.Duration(rest) > (math.MaxInt64-d.base)/d.step {
		return made, math.MaxInt64
	}
	return made, d.base + time.Duration(rest)*d.step
}
