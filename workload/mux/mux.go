// Package mux makes one runtime of one for WASI programs and one for processes. It
// knows no more of them than their interface. Start reading at [Runtime].
package mux

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// Runtime sends each workload to where its kind runs. Both fields are required; it
// is as safe for concurrent use as they are.
type Runtime struct {
	WASI      workload.Runtime
	Processes workload.Runtime
}

var _ workload.Runtime = Runtime{}

// CheckIsolation implements [workload.Runtime].
func (r Runtime) CheckIsolation(isolation workload.Isolation) error {
	return r.Processes.CheckIsolation(isolation)
}

// Start implements [workload.Runtime].
func (r Runtime) Start(ctx context.Context, spec *workload.Spec) error {
	if (spec.WASI == nil) == (spec.Process == nil) {
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("workload %s: either a program or a process", spec.ID))
	}
	to, other := r.WASI, r.Processes
	if spec.Process != nil {
		to, other = other, to
	}
	if _, err := other.Inspect(ctx, spec.ID); err == nil {
		return abi.NewError(abi.AlreadyExists, fmt.Sprintf("workload %s exists", spec.ID))
	}
	return to.Start(ctx, spec)
}

// of returns the one that has the workload; where none has it, one that reports that.
func (r Runtime) of(ctx context.Context, id string) workload.Runtime {
	if _, err := r.Processes.Inspect(ctx, id); err == nil {
		return r.Processes
	}
	return r.WASI
}

// Wait implements [workload.Runtime].
func (r Runtime) Wait(ctx context.Context, id string) (*structs.ExitResult, error) {
	return r.of(ctx, id).Wait(ctx, id)
}

// Stop implements [workload.Runtime].
func (r Runtime) Stop(ctx context.Context, id, signal string, timeout time.Duration) error {
	return r.of(ctx, id).Stop(ctx, id, signal, timeout)
}

// Signal implements [workload.Runtime].
func (r Runtime) Signal(ctx context.Context, id, signal string) error {
	return r.of(ctx, id).Signal(ctx, id, signal)
}

// Stats implements [workload.Runtime].
func (r Runtime) Stats(ctx context.Context, id string) (*workload.Stats, error) {
	return r.of(ctx, id).Stats(ctx, id)
}

// Inspect implements [workload.Runtime].
func (r Runtime) Inspect(ctx context.Context, id string) (*workload.Status, error) {
	return r.of(ctx, id).Inspect(ctx, id)
}

// List implements [workload.Runtime].
func (r Runtime) List(ctx context.Context) ([]*workload.Status, error) {
	processes, err := r.Processes.List(ctx)
	if err != nil {
		return nil, err
	}
	programs, err := r.WASI.List(ctx)
	if err != nil {
		return nil, err
	}
	all := append(processes, programs...)
	slices.SortFunc(all, func(a, b *workload.Status) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), strings.Compare(a.ID, b.ID))
	})
	return all, nil
}

// Destroy implements [workload.Runtime].
func (r Runtime) Destroy(ctx context.Context, id string) error {
	return r.of(ctx, id).Destroy(ctx, id)
}

// Run implements [workload.Runtime].
func (r Runtime) Run(ctx context.Context, helper *workload.Helper) (*structs.ExitResult, error) {
	return r.Processes.Run(ctx, helper)
}

// Exec implements [workload.Runtime].
func (r Runtime) Exec(ctx context.Context, id string, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	return r.of(ctx, id).Exec(ctx, id, spec)
}
