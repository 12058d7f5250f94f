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
	// RestartBudgetReset is how long it has to be healthy to have its whole budget
	// back, and a task to be without faults to be forgiven.
	RestartBudgetReset = 60 * time.Second
	// MaxTaskFaults is how many faults while handling one task fail that task.
	MaxTaskFaults = 2
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
	// not say; its wish is kept within the other two.
	PollInterval    = 30 * time.Second
	MinPollInterval = time.Second
	MaxPollInterval = time.Hour
)

// Health is how one version of a plugin is.
type Health struct {
	State  State
	Reason string    // one line; may be empty when the plugin is healthy
	Since  time.Time // when State was entered
	// UnconfirmedSince is when the plugin first failed to confirm what it answered
	// last; zero: that stands.
	UnconfirmedSince time.Time
}

// life is where one version of a plugin is in its supervision. It is a value: step
// gives the next one and what is to be done.
type life struct {
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
	refused struct{ reason string }
	// faulted: a call that is about no task ended without an answer.
	faulted struct{ reason string }
	// taskFaulted: so did one that is about a task.
	taskFaulted struct{ task, reason string }
	// revived: its operator wants it back from quarantine.
	revived struct{}
	// removed: its file is gone.
	removed struct{}
)

func (answered) isEvent()    {}
func (refused) isEvent()     {}
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

// newLife is a plugin that was just loaded.
func newLife(now time.Time) life { return life{Health: Health{State: StateLoading, Since: now}} }

// Over reports whether the plugin's state is its last one. Tasks that it runs still
// can fault.
func (h Health) Over() bool { return h.State == StateRemoved }

// step applies an event. It has no effect but what it returns, and leaves l as it
// was.
func (l life) step(now time.Time, e event) (life, []effect) {
	if _, ofTask := e.(taskFaulted); l.Over() && !ofTask {
		return l, nil
	}
	switch e := e.(type) {
	case answered:
		return l.onAnswer(now, e)
	case refused:
		if l.State == StateQuarantined {
			return l, nil
		}
		l = l.unconfirmed(now)
		l.refusals++
		l = l.enter(now, StateUnhealthy, e.reason)
		return l, []effect{poll{Backoff(RetryPause, MaxRetryPause, l.refusals)}}
	case faulted:
		return l.onFault(now, e)
	case taskFaulted:
		return l.onTaskFault(now, e)
	case revived:
		if l.State != StateQuarantined {
			return l, []effect{poll{}}
		}
		l.restarts, l.refusals = 0, 0
		return l.enter(now, StateRestarting, "revived"), []effect{poll{}}
	case removed:
		return l.enter(now, StateRemoved, "its file was removed"), []effect{stopPolling{}}
	}
	return l, nil
}

func (l life) onAnswer(now time.Time, e answered) (life, []effect) {
	if l.State == StateQuarantined {
		return l, nil
	}
	l.refusals, l.UnconfirmedSince = 0, time.Time{}
	if e.Healthy {
		l = l.enter(now, StateHealthy, "")
	} else {
		l = l.enter(now, StateUnhealthy, e.Text)
	}
	next := PollInterval
	if e.NextPoll > 0 {
		next = min(max(e.NextPoll, MinPollInterval), MaxPollInterval)
	}
	return l, []effect{poll{next}}
}

func (l life) onFault(now time.Time, e faulted) (life, []effect) {
	if l.State == StateQuarantined {
		return l, nil
	}
	l = l.unconfirmed(now)
	if l.State == StateHealthy && now.Sub(l.Since) >= RestartBudgetReset {
		l.restarts = 0
	}
	if l.restarts >= RestartBudget {
		reason := fmt.Sprintf("faulted %d times, last: %s; to revive it, replace its file or touch it", l.restarts+1, e.reason)
		return l.enter(now, StateQuarantined, reason), []effect{stopPolling{}}
	}
	l.restarts++
	l = l.enter(now, StateRestarting, fmt.Sprintf("restart %d of %d: %s", l.restarts, RestartBudget, e.reason))
	return l, []effect{poll{Backoff(restartPause, maxRestartPause, l.restarts)}}
}

// onTaskFault holds a fault against the task and not against the plugin: one task
// with a poisonous configuration must not take the driver from the others.
func (l life) onTaskFault(now time.Time, e taskFaulted) (life, []effect) {
	l.taskFaults = maps.Clone(l.taskFaults)
	if l.taskFaults == nil {
		l.taskFaults = map[string]faultCount{}
	}
	oldest := ""
	for task, s := range l.taskFaults {
		if now.Sub(s.last) >= RestartBudgetReset {
			delete(l.taskFaults, task)
		} else if oldest == "" || s.last.Before(l.taskFaults[oldest].last) {
			oldest = task
		}
	}
	s := l.taskFaults[e.task]
	if s.count == 0 && len(l.taskFaults) >= maxFaultyTasks {
		delete(l.taskFaults, oldest)
	}
	s.count, s.last = s.count+1, now
	l.taskFaults[e.task] = s
	if s.count >= MaxTaskFaults {
		return l, []effect{failTask{e.task}}
	}
	return l, nil
}

// enter changes state and reason; since tells when the state was entered, so that
// a new reason for the same state does not change it.
func (l life) enter(now time.Time, s State, reason string) life {
	if l.State != s {
		l.Since = now
	}
	l.State, l.Reason = s, reason
	return l
}

// unconfirmed notes that the last answer does not stand any more.
func (l life) unconfirmed(now time.Time) life {
	if l.UnconfirmedSince.IsZero() {
		l.UnconfirmedSince = now
	}
	return l
}

// Backoff is first, doubled for each attempt after the first, at most limit.
func Backoff(first, limit time.Duration, attempt int) time.Duration {
	for ; attempt > 1 && first < limit; attempt-- {
		first *= 2
	}
	return min(first, limit)
}
