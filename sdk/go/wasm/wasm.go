// Package wasm starts WASI programs as tasks: the capability wasmnode:wasm/v1. The
// node owns what it starts; it waits for it, stops it and measures it by itself.
package wasm

import (
	"context"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
)

// Program is what to start.
type Program = wasmnodev1.WasmStartRequest

// Start starts a WASI preview 1 program as the workload of the task that the
// current call is about, and returns the workload's ID, which belongs into
// TaskHandle.WorkloadId. Output goes to the task's log files by itself.
//
// # Errors
//
// NOT_FOUND: no such module; INVALID_ARGUMENT: not a WASI program, or a bad mount;
// PERMISSION_DENIED: a path that the operator did not grant; FAILED_PRECONDITION:
// the current call neither starts nor recovers a task; ALREADY_EXISTS: the task has a
// workload; RESOURCE_EXHAUSTED: too many workloads.
func Start(ctx context.Context, p *Program) (workloadID string, err error) {
	request, err := p.MarshalVT()
	if err != nil {
		return "", err
	}
	answer, err := hostcall.WasmStart(ctx, request)
	if err != nil {
		return "", err
	}
	var response wasmnodev1.WasmStartResponse
	if err := response.UnmarshalVT(answer); err != nil {
		return "", err
	}
	return response.WorkloadId, nil
}
