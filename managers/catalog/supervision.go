package catalog

import (
	"fmt"
	"maps"
	"time"
)

// The rules by which a plugin is kept in service.
const (
	// RestartBudget is how often a plugin that faults is brought up again. One more
	// fault quarantines it.
	RestartBudget = 3
	// restartBudgetReset is how long it has to be healthy to have its whole budget
	// back, and a task to be without faults to be forgiven.
	restartBudgetReset = 60 * time.Second
	// maxTaskFaults is how many faults while handling one task fail that task.
	maxTaskFaults = 2
	// maxFaultyTasks bounds the tasks whose faults are remembered; the oldest are
	// forgotten.
	maxFaultyTasks = 1024

	// RetryPause is when a plugin that answered with an error is asked again; doubled
	// with each error in a row, up to MaxRetryPause.
	RetryPause    = 5 * time.Second
	MaxRetryPause = 2 * time.Minute

	restartPause    = 250 * time.Millisecond // doubled with each restart
	maxRestartPause = 5 * time.Second

	// PollInterval is when a fingerprint is asked for again where the plugin does
	// not say; what it asks for is kept within the other two.
	PollInterval    = 30 * time.Second
	MinPollInterval = time.Second
	MaxPollInterval = time.Hour
)

// Health is how one version of a plugin is.
type Health struct {
	State  State
	Reason string // one line; may be empty when the plugin is healthy
	// WouldGrant is the configuration without which the plugin is not in service; empty: it is
	// not for a grant that it is not.
	WouldGrant string
	Since      time.Time // when State was entered
	// UnconfirmedSince is when the plugin first failed to confirm what it answered
	// last; zero: the last answer is valid.
	UnconfirmedSince time.Time
}

// supervision is the state of supervising one version of a plugin. It is a value: step
// returns the next one and what is to be done.
type supervision struct {
	Health

	restarts   int // used up of the budget
	refusals   int // in a row
	taskFaults map[string]faultCount
}

// faultCount counts the faults of one task.
type faultCount struct {
	count int
	last  time.Time
}

// An event is something that happened to a plugin.
type event interface{ isEvent() }

type (
	// answered: the plugin is configured and answered a fingerprint.
	answered struct{ Answer }
	// refused: it cannot be configured, or answered a fingerprint with an error.
	// wouldGrant is the grant that it cannot be configured without; empty: it is not for one.
	refused struct{ reason, wouldGrant string }
	// exhausted: a call about a task failed because the plugin has used up a budget.
	exhausted struct{ reason string }
	// faulted: a call that is about no task ended without an answer.
	faulted struct{ reason string }
	// taskFaulted: so did one that is about a task.
	taskFaulted struct{ task, reason string }
	// revived: its operator wants it asked now, or back from quarantine.
	revived struct{}
	// removed: its file is gone, or must not have its name any more.
	removed struct{ why string }
)

func (answered) isEvent()    {}
func (refused) isEvent()     {}
func (exhausted) isEvent()   {}
func (faulted) isEvent()     {}
func (taskFaulted) isEvent() {}
func (revived) isEvent()     {}
func (removed) isEvent()     {}

// An effect is what is to be done about an event.
type effect interface{ isEffect() }

type (
	// poll: configure the plugin if it is not, and ask for its fingerprint, after a
	// pause. It takes the place of an earlier one.
	poll struct{ after time.Duration }
	// stopPolling: do not ask any more.
	stopPolling struct{}
	// failTask: the task has faulted too often to be tried again.
	failTask struct{ task string }
)

func (poll) isEffect()        {}
func (stopPolling) isEffect() {}
func (failTask) isEffect()    {}

// newSupervision is a plugin that was just loaded.
func newSupervision(now time.Time) supervision {
	return supervision{Health: Health{State: StateLoading, Since: now}}
}

// Over reports whether the plugin's state is its last one. Tasks that it runs still
// can fault.
func (h Health) Over() bool { return h.State == StateRemoved }

// step applies an event. It has no effect but what it returns, and leaves v as it
// was.
func (v supervision) step(now time.Time, e event) (supervision, []effect) {
	if _, ofTask := e.(taskFaulted); v.Over() && !ofTask {
		return v, nil
	}
	switch e := e.(type) {
	case answered:
		return v.onAnswer(now, e)
	case refused:
		if v.State == StateQuarantined {
			return v, nil
		}
		v = v.unconfirmed(now)
		v.refusals++
		v = v.enter(now, StateUnhealthy, e.reason)
		v.WouldGrant = e.wouldGrant
		return v, []effect{poll{Backoff(RetryPause, MaxRetryPause, v.refusals)}}
	case exhausted:
		if v.State != StateHealthy {
			return v, nil // it is asked again soon anyway
		}
		return v.enter(now, StateUnhealthy, e.reason), []effect{poll{RetryPause}}
	case faulted:
		return v.onFault(now, e)
	case taskFaulted:
		return v.onTaskFault(now, e)
	case revived:
		if v.State != StateQuarantined {
			return v, []effect{poll{}}
		}
		v.restarts, v.refusals = 0, 0
		return v.enter(now, StateRestarting, "revived"), []effect{poll{}}
	case removed:
		return v.enter(now, StateRemoved, e.why), []effect{stopPolling{}}
	}
	return v, nil
}

func (v supervision) onAnswer(now time.Time, e answered) (supervision, []effect) {
	if v.State == StateQuarantined {
		return v, nil
	}
	v.refusals, v.UnconfirmedSince = 0, time.Time{}
	if e.Healthy {
		v = v.enter(now, StateHealthy, "")
	} else {
		v = v.enter(now, StateUnhealthy, e.Text)
	}
	next := PollInterval
	if e.NextPoll > 0 {
		next = min(max(e.NextPoll, MinPollInterval), MaxPollInterval)
	}
	return v, []effect{poll{next}}
}

func (v supervision) onFault(now time.Time, e faulted) (supervision, []effect) {
	if v.State == StateQuarantined {
		return v, nil
	}
	v = v.unconfirmed(now)
	if v.State == StateHealthy && now.Sub(v.Since) >= restartBudgetReset {
		v.restarts = 0
	}
	if v.restarts >= RestartBudget {
		reason := fmt.Sprintf("faulted %d times, last: %s; to revive it, replace its file or touch it", v.restarts+1, e.reason)
		return v.enter(now, StateQuarantined, reason), []effect{stopPolling{}}
	}
	v.restarts++
	v = v.enter(now, StateRestarting, fmt.Sprintf("restart %d of %d: %s", v.restarts, RestartBudget, e.reason))
	return v, []effect{poll{Backoff(restartPause, maxRestartPause, v.restarts)}}
}

// onTaskFault holds a fault against the task and not against the plugin: one task
// with a bad configuration must not take the driver from the others.
func (v supervision) onTaskFault(now time.Time, e taskFaulted) (supervision, []effect) {
	v.taskFaults = maps.Clone(v.taskFaults)
	if v.taskFaults == nil {
		v.taskFaults = map[string]faultCount{}
	}
	oldest := ""
	for task, s := range v.taskFaults {
		if now.Sub(s.last) >= restartBudgetReset {
			delete(v.taskFaults, task)
		} else if oldest == "" || s.last.Before(v.taskFaults[oldest].last) {
			oldest = task
		}
	}
	s := v.taskFaults[e.task]
	if s.count == 0 && len(v.taskFaults) >= maxFaultyTasks {
		delete(v.taskFaults, oldest)
	}
	s.count, s.last = s.count+1, now
	v.taskFaults[e.task] = s
	if s.count >= maxTaskFaults {
		return v, []effect{failTask{e.task}}
	}
	return v, nil
}

// enter changes state and reason; since is when the state was entered, so that
// a new reason for the same state does not change it.
func (v supervision) enter(now time.Time, s State, reason string) supervision {
	if v.State != s {
		v.Since = now
	}
	v.State, v.Reason, v.WouldGrant = s, reason, ""
	return v
}

// unconfirmed notes that the last answer is not valid any more.
func (v supervision) unconfirmed(now time.Time) supervision {
	if v.UnconfirmedSince.IsZero() {
		v.UnconfirmedSince = now
	}
	return v
}

// Backoff is first, doubled for each attempt after the first, at most limit.
func Backoff(first, limit time.Duration, attempt int) time.Duration {
	for ; attempt > 1 && first < limit; attempt-- {
		first *= 2
	}
	return min(first, limit)
}
