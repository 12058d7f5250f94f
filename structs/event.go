package structs

import (
	"fmt"
	"strconv"
	"time"
)

// The types of task events, with Nomad's names: what `alloc status` prints in
// the column Type.
const (
	EventReceived               = "Received"
	EventTaskSetup              = "Task Setup"
	EventFailedValidation       = "Failed Validation"
	EventSetupFailure           = "Setup Failure"
	EventDriverFailure          = "Driver Failure"
	EventDownloadingArtifacts   = "Downloading Artifacts"
	EventArtifactDownloadFailed = "Failed Artifact Download"
	EventStarted                = "Started"
	EventTerminated             = "Terminated"
	EventKilling                = "Killing"
	EventKilled                 = "Killed"
	EventRestarting             = "Restarting"
	EventNotRestarting          = "Not Restarting"
	EventRestartSignaled        = "Restart Signaled"
	EventSignaling              = "Signaling"
	EventSiblingFailed          = "Sibling Task Failed"
	EventLeaderDead             = "Leader Task Dead"
	EventMainDead               = "Main Tasks Dead"
	EventDriver                 = "Driver"
	EventHookFailed             = "Task hook failed"
	EventHookMessage            = "Task hook message"
	EventFailedRestoring        = "Failed Restoring Task"
	EventWaitingShutdownDelay   = "Waiting for shutdown delay"
	EventSkippingShutdownDelay  = "Skipping shutdown delay"
	EventReconnected            = "Reconnected"
	EventTemplate               = "Template"
	EventAllocUnhealthy         = "Alloc Unhealthy"
)

// The keys of TaskEvent.Details, with Nomad's names.
const (
	detailExitCode      = "exit_code"
	detailSignal        = "signal"
	detailExitMessage   = "exit_message"
	detailOOMKilled     = "oom_killed"
	detailKillTimeout   = "kill_timeout"
	detailKillReason    = "kill_reason"
	detailKillError     = "kill_error"
	detailRestartReason = "restart_reason"
	detailStartDelay    = "start_delay"
	detailFailedSibling = "failed_sibling"
	detailTaskSignal    = "task_signal"
	detailSignalReason  = "task_signal_reason"
	detailFailsTask     = "fails_task"
)

// ReasonWithinPolicy is the restart reason that the text of a Restarting event
// leaves out, because it is the ordinary one.
const ReasonWithinPolicy = "Restart within policy"

// TaskEvent is one thing that happened to a task. It is built by [NewTaskEvent]
// and the methods that return it, appended once by [TaskState.Append], and not
// changed after that.
type TaskEvent struct {
	Type           string
	Time           int64  // ns since the Unix epoch
	Message        string // the type's own text, where it carries one
	DisplayMessage string // what people read; made from the rest when empty
	Details        map[string]string
	FailsTask      bool
}

// NewTaskEvent returns an event of that type that happened now.
func NewTaskEvent(eventType string) *TaskEvent {
	return &TaskEvent{Type: eventType, Time: time.Now().UnixNano(), Details: map[string]string{}}
}

// WithMessage sets the text of event types that carry one: a setup step, an
// error, a reason.
func (e *TaskEvent) WithMessage(m string) *TaskEvent {
	e.Message = m
	return e
}

// WithDetail sets one detail.
func (e *TaskEvent) WithDetail(key, value string) *TaskEvent {
	e.Details[key] = value
	return e
}

// Fails marks the event as one that fails its task.
func (e *TaskEvent) Fails() *TaskEvent {
	e.FailsTask = true
	return e.WithDetail(detailFailsTask, "true")
}

// WithExit records how the task ended, for a Terminated event.
func (e *TaskEvent) WithExit(r *ExitResult) *TaskEvent {
	e.Details[detailExitCode] = strconv.Itoa(r.ExitCode)
	e.Details[detailSignal] = strconv.Itoa(r.Signal)
	e.Details[detailOOMKilled] = strconv.FormatBool(r.OOMKilled)
	if r.Err != "" {
		e.Details[detailExitMessage] = r.Err
	}
	return e
}

// Exit returns what [TaskEvent.WithExit] recorded.
func (e *TaskEvent) Exit() *ExitResult {
	code, _ := strconv.Atoi(e.Details[detailExitCode])
	signal, _ := strconv.Atoi(e.Details[detailSignal])
	return &ExitResult{ExitCode: code, Signal: signal, OOMKilled: e.Details[detailOOMKilled] == "true", Err: e.Details[detailExitMessage]}
}

// WithKillTimeout records how long a task has to end by itself.
func (e *TaskEvent) WithKillTimeout(d time.Duration) *TaskEvent {
	return e.WithDetail(detailKillTimeout, d.String())
}

// WithKillReason records why a task is killed.
func (e *TaskEvent) WithKillReason(reason string) *TaskEvent {
	return e.WithDetail(detailKillReason, reason)
}

// WithKillError records why a kill did not succeed.
func (e *TaskEvent) WithKillError(err error) *TaskEvent {
	if err == nil {
		return e
	}
	return e.WithDetail(detailKillError, err.Error())
}

// WithRestart records why and after what delay a task restarts, or why it does not.
func (e *TaskEvent) WithRestart(reason string, delay time.Duration) *TaskEvent {
	e.Details[detailRestartReason] = reason
	e.Details[detailStartDelay] = strconv.FormatInt(int64(delay), 10)
	return e
}

// WithFailedSibling names the task whose failure kills this one.
func (e *TaskEvent) WithFailedSibling(task string) *TaskEvent {
	return e.WithDetail(detailFailedSibling, task)
}

// WithSignal records the signal that is sent to the task, and why.
func (e *TaskEvent) WithSignal(signal, reason string) *TaskEvent {
	e.Details[detailTaskSignal] = signal
	if reason != "" {
		e.Details[detailSignalReason] = reason
	}
	return e
}

// defaultText is the text of an event that carries none.
var defaultText = map[string]string{
	EventReceived:               "Task received by client",
	EventFailedValidation:       "Validation of task failed",
	EventSetupFailure:           "Task setup failed",
	EventDriverFailure:          "Failed to start task",
	EventDownloadingArtifacts:   "Client is downloading artifacts",
	EventArtifactDownloadFailed: "Failed to download artifacts",
	EventStarted:                "Task started by client",
	EventKilled:                 "Task successfully killed",
	EventNotRestarting:          "Task exceeded restart policy",
	EventRestartSignaled:        "Task signaled to restart",
	EventLeaderDead:             "Leader Task in Group dead",
	EventMainDead:               "Main tasks in the group died",
	EventFailedRestoring:        "failed to restore task; will not run until server is contacted",
	EventReconnected:            "Client reconnected",
}

// display makes the text that people read, byte for byte Nomad's; all drivers say it when
// memory ran out, as its docker driver does.
func (e *TaskEvent) display() string {
	switch e.Type {
	case EventTerminated:
		return e.displayTerminated()
	case EventKilling:
		return e.displayKilling()
	case EventKilled:
		if err := e.Details[detailKillError]; err != "" {
			return err
		}
	case EventRestarting:
		return e.displayRestarting()
	case EventNotRestarting, EventRestartSignaled:
		if reason := e.Details[detailRestartReason]; reason != "" {
			return reason
		}
	case EventSiblingFailed:
		if name := e.Details[detailFailedSibling]; name != "" {
			return fmt.Sprintf("Task's sibling %q failed", name)
		}
		return "Task's sibling failed"
	case EventSignaling:
		return e.displaySignaling()
	}
	if e.Message != "" {
		return e.Message
	}
	return defaultText[e.Type]
}

func (e *TaskEvent) displayTerminated() string {
	text := "Exit Code: " + e.Details[detailExitCode]
	if s := e.Details[detailSignal]; s != "" && s != "0" {
		text += ", Signal: " + s
	}
	m := e.Details[detailExitMessage]
	if m == "" && e.Details[detailOOMKilled] == "true" {
		m = "OOM Killed"
	}
	if m != "" {
		text += fmt.Sprintf(", Exit Message: %q", m)
	}
	return text
}

func (e *TaskEvent) displayKilling() string {
	switch {
	case e.Details[detailKillReason] != "":
		return e.Details[detailKillReason]
	case e.Details[detailKillTimeout] != "":
		return fmt.Sprintf("Sent interrupt. Waiting %s before force killing", e.Details[detailKillTimeout])
	}
	return "Sent interrupt"
}

func (e *TaskEvent) displayRestarting() string {
	delay, _ := strconv.ParseInt(e.Details[detailStartDelay], 10, 64)
	text := fmt.Sprintf("Task restarting in %s", time.Duration(delay))
	if reason := e.Details[detailRestartReason]; reason != "" && reason != ReasonWithinPolicy {
		return reason + " - " + text
	}
	return text
}

func (e *TaskEvent) displaySignaling() string {
	signal, reason := e.Details[detailTaskSignal], e.Details[detailSignalReason]
	switch {
	case signal == "" && reason == "":
		return "Task being sent a signal"
	case signal == "":
		return reason
	case reason == "":
		return "Task being sent signal " + signal
	}
	return "Task being sent signal " + signal + ": " + reason
}
