package managers

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
	// TaskStrikes is how many faults while handling one task fail that task.
	TaskStrikes = 2
	// maxStruckTasks bounds the tasks whose strikes are remembered; the oldest are
	// forgotten.
	maxStruckTasks = 1024

	restartPause    = 250 * time.Millisecond // doubled with each restart
	maxRestartPause = 5 * time.Second
	retryPause      = 5 * time.Second // doubled with each refusal in a row
	maxRetryPause   = 2 * time.Minute

	// pollInterval is when a fingerprint is asked for again where the plugin does
	// not say; its wish is kept within the other two.
	pollInterval    = 30 * time.Second
	minPollInterval = time.Second
	maxPollInterval = time.Hour
)

// life is where one version of a plugin is in its supervision. It is a value: step
// gives the next one and what is to be done.
type life struct {
	state  State
	reason string
	since  time.Time
	// doubted is when a plugin first failed to confirm what it answered last; zero:
	// that stands.
	doubted time.Time

	restarts int // used up of the budget
	refusals int // in a row
	strikes  map[string]strike
}

// strike counts the faults of one task.
type strike struct {
	count int
	last  time.Time
}

// An event is something that happened to a plugin.
type event interface{ isEvent() }

type (
	// answered: the plugin is configured and answered a fingerprint.
	answered struct {
		healthy bool
		text    string        // the plugin's own description
		next    time.Duration // when it wants to be asked again; 0: no wish
	}
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
	// ask: configure the plugin if it is not, and ask for its fingerprint, after a
	// pause. It takes the place of an earlier one.
	ask struct{ after time.Duration }
	// rest: do not ask any more.
	rest struct{}
	// failTask: the task has faulted too often to be tried again.
	failTask struct{ task string }
)

func (ask) isEffect()      {}
func (rest) isEffect()     {}
func (failTask) isEffect() {}

// newLife is a plugin that was just loaded.
func newLife(now time.Time) life { return life{state: StateLoading, since: now} }

// over reports whether the plugin's state is its last one. Tasks that it runs still
// can fault.
func (l life) over() bool { return l.state == StateRemoved }

// step applies an event. It has no effect but what it returns, and leaves l as it
// was.
func (l life) step(now time.Time, e event) (life, []effect) {
	if _, ofTask := e.(taskFaulted); l.over() && !ofTask {
		return l, nil
	}
	switch e := e.(type) {
	case answered:
		return l.onAnswer(now, e)
	case refused:
		if l.state == StateQuarantined {
			return l, nil
		}
		l = l.doubt(now)
		l.refusals++
		l = l.enter(now, StateUnhealthy, e.reason)
		return l, []effect{ask{backoff(retryPause, maxRetryPause, l.refusals)}}
	case faulted:
		return l.onFault(now, e)
	case taskFaulted:
		return l.onTaskFault(now, e)
	case revived:
		if l.state != StateQuarantined {
			return l, []effect{ask{}}
		}
		l.restarts, l.refusals = 0, 0
		return l.enter(now, StateRestarting, "revived"), []effect{ask{}}
	case removed:
		return l.enter(now, StateRemoved, "its file was removed"), []effect{rest{}}
	}
	return l, nil
}

func (l life) onAnswer(now time.Time, e answered) (life, []effect) {
	if l.state == StateQuarantined {
		return l, nil
	}
	l.refusals, l.doubted = 0, time.Time{}
	if e.healthy {
		l = l.enter(now, StateHealthy, "")
	} else {
		l = l.enter(now, StateUnhealthy, e.text)
	}
	next := pollInterval
	if e.next > 0 {
		next = min(max(e.next, minPollInterval), maxPollInterval)
	}
	return l, []effect{ask{next}}
}

func (l life) onFault(now time.Time, e faulted) (life, []effect) {
	if l.state == StateQuarantined {
		return l, nil
	}
	l = l.doubt(now)
	if l.state == StateHealthy && now.Sub(l.since) >= RestartBudgetReset {
		l.restarts = 0
	}
	if l.restarts >= RestartBudget {
		reason := fmt.Sprintf("faulted %d times, last: %s; to revive it, replace its file or touch it", l.restarts+1, e.reason)
		return l.enter(now, StateQuarantined, reason), []effect{rest{}}
	}
	l.restarts++
	l = l.enter(now, StateRestarting, fmt.Sprintf("restart %d of %d: %s", l.restarts, RestartBudget, e.reason))
	return l, []effect{ask{backoff(restartPause, maxRestartPause, l.restarts)}}
}

// onTaskFault holds a fault against the task and not against the plugin: one task
// with a poisonous configuration must not take the driver from the others.
func (l life) onTaskFault(now time.Time, e taskFaulted) (life, []effect) {
	l.strikes = maps.Clone(l.strikes)
	if l.strikes == nil {
		l.strikes = map[string]strike{}
	}
	oldest := ""
	for task, s := range l.strikes {
		if now.Sub(s.last) >= RestartBudgetReset {
			delete(l.strikes, task)
		} else if oldest == "" || s.last.Before(l.strikes[oldest].last) {
			oldest = task
		}
	}
	s := l.strikes[e.task]
	if s.count == 0 && len(l.strikes) >= maxStruckTasks {
		delete(l.strikes, oldest)
	}
	s.count, s.last = s.count+1, now
	l.strikes[e.task] = s
	if s.count >= TaskStrikes {
		return l, []effect{failTask{e.task}}
	}
	return l, nil
}

// enter changes state and reason; since tells when the state was entered, so that
// a new reason for the same state does not change it.
func (l life) enter(now time.Time, s State, reason string) life {
	if l.state != s {
		l.since = now
	}
	l.state, l.reason = s, reason
	return l
}

// doubt notes that the last answer does not stand any more.
func (l life) doubt(now time.Time) life {
	if l.doubted.IsZero() {
		l.doubted = now
	}
	return l
}

// backoff is first, doubled for each attempt after the first, at most limit.
func backoff(first, limit time.Duration, attempt int) time.Duration {
	for ; attempt > 1 && first < limit; attempt-- {
		first *= 2
	}
	return min(first, limit)
}
