// Package mux makes one supervisor of one for WASI programs and one for processes. It
// knows no more of them than their interface. Start reading at [Supervisor].
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

// Supervisor sends each workload to where its kind runs. Both fields are required; it
// is as safe for concurrent use as they are.
type Supervisor struct {
	WASI      workload.Supervisor
	Processes workload.Supervisor
}

var _ workload.Supervisor = Supervisor{}

// Start implements [workload.Supervisor].
func (s Supervisor) Start(ctx context.Context, spec *workload.Spec) error {
	if (spec.WASI == nil) == (spec.Process == nil) {
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("workload %s: either a program or a process", spec.ID))
	}
	to, other := s.WASI, s.Processes
	if spec.Process != nil {
		to, other = other, to
	}
	if _, err := other.Inspect(ctx, spec.ID); err == nil {
		return abi.NewError(abi.AlreadyExists, fmt.Sprintf("workload %s exists", spec.ID))
	}
	return to.Start(ctx, spec)
}

// of returns the one that has the workload; where none has it, one that says so.
func (s Supervisor) of(ctx context.Context, id string) workload.Supervisor {
	if _, err := s.Processes.Inspect(ctx, id); err == nil {
		return s.Processes
	}
	return s.WASI
}

// Wait implements [workload.Supervisor].
func (s Supervisor) Wait(ctx context.Context, id string) (*structs.ExitResult, error) {
	return s.of(ctx, id).Wait(ctx, id)
}

// Stop implements [workload.Supervisor].
func (s Supervisor) Stop(ctx context.Context, id, signal string, timeout time.Duration) error {
	return s.of(ctx, id).Stop(ctx, id, signal, timeout)
}

// Signal implements [workload.Supervisor].
func (s Supervisor) Signal(ctx context.Context, id, signal string) error {
	return s.of(ctx, id).Signal(ctx, id, signal)
}

// Stats implements [workload.Supervisor].
func (s Supervisor) Stats(ctx context.Context, id string) (*workload.Stats, error) {
	return s.of(ctx, id).Stats(ctx, id)
}

// Inspect implements [workload.Supervisor].
func (s Supervisor) Inspect(ctx context.Context, id string) (*workload.Status, error) {
	return s.of(ctx, id).Inspect(ctx, id)
}

// List implements [workload.Supervisor].
func (s Supervisor) List(ctx context.Context) ([]*workload.Status, error) {
	processes, err := s.Processes.List(ctx)
	if err != nil {
		return nil, err
	}
	programs, err := s.WASI.List(ctx)
	if err != nil {
		return nil, err
	}
	all := append(processes, programs...)
	slices.SortFunc(all, func(a, b *workload.Status) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), strings.Compare(a.ID, b.ID))
	})
	return all, nil
}

// Destroy implements [workload.Supervisor].
func (s Supervisor) Destroy(ctx context.Context, id string) error {
	return s.of(ctx, id).Destroy(ctx, id)
}

// Exec implements [workload.Supervisor].
func (s Supervisor) Exec(ctx context.Context, id string, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	return s.of(ctx, id).Exec(ctx, id, spec)
}
