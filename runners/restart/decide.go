package restart

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// The reasons, with Nomad's texts.
const (
	ReasonNoRestarts    = "Policy allows no restarts"
	ReasonUnrecoverable = "Error was unrecoverable"
	ReasonWithinPolicy  = structs.ReasonWithinPolicy
	ReasonDelay         = "Exceeded allowed attempts, applying a delay"
	ReasonUnnecessary   = "Restart unnecessary as task terminated successfully"
)

// Action is what to do with a task.
type Action int

// The actions.
const (
	Terminated    Action = iota // it is done
	Killed                      // it was killed
	Restarting                  // it runs again after the delay
	NotRestarting               // it failed for good
)

// String names the action.
func (a Action) String() string {
	return [...]string{"Terminated", "Killed", "Restarting", "NotRestarting"}[a]
}

// Event is what happened to a task. The zero value, nothing, counts as an unknown
// failure.
type Event struct {
	// Killed: the task is to be dead. It wins over everything else.
	Killed bool
	// Requested: the task is to be restarted, at once and at no cost to the
	// policy's attempts.
	Requested bool
	// StartError is why the task did not start.
	StartError error
	// Exit is how the task ended.
	Exit *structs.ExitResult
}

// Decision is what follows.
type Decision struct {
	Action Action
	Delay  time.Duration // before the restart
	Reason string        // why, for people
	// Window is the one to use for the next decision.
	Window state.RestartWindow
}

// Jitter adds up to a quarter to a delay, so that tasks that fail together do not
// restart together.
func Jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d + rand.N(d/4+1)
}

// Decide decides on an event that happens now. jitter stretches a policy's delay; nil
// leaves it as it is.
func (p Policy) Decide(w state.RestartWindow, e Event, now time.Time, jitter func(time.Duration) time.Duration) Decision {
	success := e.StartError == nil && e.Exit != nil && e.Exit.Successful()
	done := success && !p.OnSuccess
	switch {
	case e.Killed:
		return Decision{Action: Killed, Window: w}
	case e.Requested:
		return Decision{Action: Restarting, Window: w}
	case p.Attempts <= 0 && done:
		return Decision{Action: Terminated, Reason: ReasonNoRestarts, Window: w}
	case p.Attempts <= 0:
		return Decision{Action: NotRestarting, Reason: ReasonNoRestarts, Window: w}
	}
	w = p.count(w, now)
	switch {
	case e.StartError != nil && !abi.IsRecoverable(e.StartError):
		return Decision{Action: NotRestarting, Reason: ReasonUnrecoverable, Window: w}
	case done:
		return Decision{Action: Terminated, Reason: ReasonUnnecessary, Window: w}
	case w.Count <= p.Attempts:
		delay := p.Delay
		if jitter != nil {
			delay = jitter(delay)
		}
		return Decision{Action: Restarting, Delay: delay, Reason: ReasonWithinPolicy, Window: w}
	case p.Wait && p.Interval > 0:
		return Decision{Action: Restarting, Delay: p.remaining(w, now), Reason: ReasonDelay, Window: w}
	}
	return Decision{
		Action: NotRestarting,
		Reason: fmt.Sprintf(`Exceeded allowed attempts %d in interval %v and mode is "fail"`, p.Attempts, p.Interval),
		Window: w,
	}
}

// count opens a new window when the last has passed, and counts one more attempt. A
// clock that went backwards opens a new window too, instead of one without end. Without
// an interval the window never passes: the attempts are all there are.
func (p Policy) count(w state.RestartWindow, now time.Time) state.RestartWindow {
	since := now.Sub(time.Unix(0, w.Start))
	if w.Start == 0 || since < 0 || p.Interval > 0 && since >= p.Interval {
		w = state.RestartWindow{Start: now.UnixNano()}
	}
	w.Count++
	return w
}

// remaining is how long the window still is.
func (p Policy) remaining(w state.RestartWindow, now time.Time) time.Duration {
	return max(0, p.Interval-now.Sub(time.Unix(0, w.Start)))
}
