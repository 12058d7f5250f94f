package structs

import (
	"slices"
	"time"
)

// TaskPhase is the coarse state of a task.
type TaskPhase string

// The phases, with Nomad's names. Dead is left only by a forced restart.
const (
	TaskPending TaskPhase = "pending"
	TaskRunning TaskPhase = "running"
	TaskDead    TaskPhase = "dead"
)

// maxTaskEvents is how many events of a task are kept; the oldest are dropped
// (Nomad's defaultMaxEvents).
const maxTaskEvents = 10

// TaskState is what is known of one task of an allocation.
type TaskState struct {
	State       TaskPhase
	Failed      bool // sticky: once failed, always failed
	Restarts    uint64
	LastRestart time.Time
	StartedAt   time.Time // of the current run
	FinishedAt  time.Time // zero while it runs
	Events      []*TaskEvent
}

// Copy returns a deep copy. Events are immutable once appended and are shared.
func (s *TaskState) Copy() *TaskState {
	if s == nil {
		return nil
	}
	c := *s
	c.Events = slices.Clone(s.Events)
	return &c
}

// Successful reports whether the task is dead and did not fail.
func (s *TaskState) Successful() bool {
	return s.State == TaskDead && !s.Failed
}

// Append adds an event, completes its display text, applies what it implies
// (failure, restart count), and drops the oldest event past maxTaskEvents.
// The event must not be changed afterwards.
func (s *TaskState) Append(e *TaskEvent) {
	if e.DisplayMessage == "" {
		e.DisplayMessage = e.display()
	}
	if e.FailsTask {
		s.Failed = true
	}
	if e.Type == EventRestarting {
		s.Restarts++
		s.LastRestart = time.Unix(0, e.Time).UTC()
	}
	s.Events = append(s.Events, e)
	if n := len(s.Events) - maxTaskEvents; n > 0 {
		s.Events = slices.Delete(s.Events, 0, n)
	}
}

// Amend gives an event that was appended another text, and reports whether it is still kept.
// The event itself stays as it is: others may read it.
func (s *TaskState) Amend(e *TaskEvent, text string) bool {
	i := slices.IndexFunc(s.Events, func(kept *TaskEvent) bool { return kept.Type == e.Type && kept.Time == e.Time })
	if i < 0 {
		return false
	}
	amended := *s.Events[i]
	amended.DisplayMessage = text
	s.Events[i] = &amended
	return true
}

// Enter moves the task to a phase at a time. Entering running clears FinishedAt,
// so that a task restarted after its end does not look finished.
func (s *TaskState) Enter(p TaskPhase, now time.Time) {
	switch {
	case p == TaskRunning && s.State != TaskRunning:
		s.StartedAt = now.UTC()
		s.FinishedAt = time.Time{}
	case p == TaskDead && s.FinishedAt.IsZero():
		s.FinishedAt = now.UTC()
	}
	s.State = p
}

// ExitResult is how a task ended.
type ExitResult struct {
	ExitCode  int
	Signal    int // 0: no signal ended it
	OOMKilled bool
	Err       string // set when how it ended is not known
}

// Successful reports whether the task ended by itself with exit code 0.
func (r *ExitResult) Successful() bool {
	return r.ExitCode == 0 && r.Signal == 0 && r.Err == ""
}
