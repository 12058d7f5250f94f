// Package workload deals with the workloads of the task that a call is about: the one that its
// handle names, and those that were started beside it under a name. It is the capability
// wasmnode:workload/v1, which needs no grant but that of commands. What a driver leaves out the
// node does with the task's own workload by itself.
//
// A name is that of a [process.Command]; empty: the task's own workload. Errors of all functions
// are [abi.Error] values. NOT_FOUND: the task has no such workload; INVALID_ARGUMENT: a bound,
// or no such signal; FAILED_PRECONDITION: the call is about no task.
package workload

import (
	"context"
	"time"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
)

// Result is how a workload ended.
type Result = wasmnodev1.ExitResult

// Figures are what a workload uses.
type Figures = wasmnodev1.TaskStats

// State is a workload's state; without a result it runs.
type State = wasmnodev1.WorkloadInspectResponse

// Command is a command to run in a workload that is a process, to its end.
type Command = wasmnodev1.WorkloadExecRequest

// Ended is how a command ended, and what it wrote.
type Ended = wasmnodev1.WorkloadExecResponse

// Signal sends a signal, such as "SIGHUP". FAILED_PRECONDITION: it has ended; UNIMPLEMENTED: it
// cannot receive that.
func Signal(ctx context.Context, name, signal string) error {
	return hostcall.Ask(ctx, hostcall.WorkloadSignal, &wasmnodev1.WorkloadSignalRequest{Name: name, Signal: signal}, &wasmnodev1.WorkloadSignalResponse{})
}

// Stop sends a signal (empty: "SIGINT"), kills what has not ended after the grace time, which is
// at most a day, and returns when it has ended. One that has is no error.
func Stop(ctx context.Context, name, signal string, grace time.Duration) error {
	request := &wasmnodev1.WorkloadStopRequest{Name: name, Signal: signal, TimeoutMs: grace.Milliseconds()}
	return hostcall.Ask(ctx, hostcall.WorkloadStop, request, &wasmnodev1.WorkloadStopResponse{})
}

// Wait waits for a workload's end, for a time; with a negative one, as long as the call may take.
// Nil: it runs still.
func Wait(ctx context.Context, name string, timeout time.Duration) (*Result, error) {
	request := &wasmnodev1.WorkloadWaitRequest{Name: name, TimeoutMs: -1}
	if timeout >= 0 {
		request.TimeoutMs = timeout.Milliseconds()
	}
	var answer wasmnodev1.WorkloadWaitResponse
	err := hostcall.Ask(ctx, hostcall.WorkloadWait, request, &answer)
	return answer.Result, err
}

// Stats returns what a workload uses now.
func Stats(ctx context.Context, name string) (*Figures, error) {
	var answer wasmnodev1.WorkloadStatsResponse
	if err := hostcall.Ask(ctx, hostcall.WorkloadStats, &wasmnodev1.WorkloadStatsRequest{Name: name}, &answer); err != nil {
		return nil, err
	}
	return answer.Stats, nil
}

// Inspect returns a workload's state.
func Inspect(ctx context.Context, name string) (*State, error) {
	answer := new(State)
	if err := hostcall.Ask(ctx, hostcall.WorkloadInspect, &wasmnodev1.WorkloadInspectRequest{Name: name}, answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// Exec runs a command in a workload to its end, with that one's user, environment, working
// directory, isolation and limits. An exit code that is not 0 is no error.
//
// # Errors
//
// PERMISSION_DENIED: the command is not among those that processes may be started with;
// NOT_FOUND: there is no such command, either; FAILED_PRECONDITION: the workload has ended;
// DEADLINE_EXCEEDED, recoverable: it ran for too long, and was killed; RESOURCE_EXHAUSTED,
// recoverable: too many at a time.
func Exec(ctx context.Context, c *Command) (*Ended, error) {
	ended := new(Ended)
	if err := hostcall.Ask(ctx, hostcall.WorkloadExec, c, ended); err != nil {
		return nil, err
	}
	return ended, nil
}
