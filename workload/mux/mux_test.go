package mux_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/leaktest"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/mux"
	"github.com/wasmnode/wasmnode/workload/process"
	"github.com/wasmnode/wasmnode/workload/wasi"
	"github.com/wasmnode/wasmnode/workload/workloadtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.WithTimeout(m)) }

func TestEachWorkloadRunsWhereItsKindDoes(t *testing.T) {
	e, err := sandbox.Open(sandbox.Config{})
	require.NoError(t, err)
	programs := wasi.New(wasi.Config{Logger: hclog.NewNullLogger(), Engine: e})
	processes, err := process.New(process.Config{Logger: hclog.NewNullLogger(), Name: fmt.Sprintf("mux-test-%d", os.Getpid())})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, programs.Close())
		require.NoError(t, processes.Close())
		require.NoError(t, e.Close(context.Background()))
	})
	s := mux.Runtime{WASI: programs, Processes: processes}

	ctx := t.Context()
	spec := func(id string) *workload.Spec {
		return &workload.Spec{ID: id, MemoryMaxBytes: 64 << 20, Logs: workload.Logs{Disabled: true}}
	}
	program, shell := spec("program"), spec("process")
	program.WASI = &workload.WASIProgram{Name: "guest", Module: guestbuild.Program(t, workloadtest.GuestPackage), Args: []string{"exit", "3"}}
	shell.Process = &workload.Process{Command: "/bin/sh", Args: []string{"-c", "sleep 100"}, Dir: "/", Isolation: workload.IsolationNone}
	require.NoError(t, s.Start(ctx, program))
	require.NoError(t, s.Start(ctx, shell))

	list, err := s.List(ctx)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, []string{"program", "process"}, []string{list[0].ID, list[1].ID}, "in the order of their starts")
	status, err := processes.Inspect(ctx, "process")
	require.NoError(t, err)
	require.Equal(t, workload.Running, status.State)

	exit, err := s.Wait(ctx, "program")
	require.NoError(t, err)
	require.Equal(t, 3, exit.ExitCode)
	_, err = s.Stats(ctx, "process")
	require.NoError(t, err)
	require.NoError(t, s.Signal(ctx, "process", "SIGHUP"), "which no program can receive")
	exit, err = s.Wait(ctx, "process")
	require.NoError(t, err)
	require.Equal(t, 1, exit.Signal)
	require.NoError(t, s.Stop(ctx, "process", "", 0))

	for _, clash := range []*workload.Spec{{ID: "program", Process: shell.Process}, {ID: "process", WASI: program.WASI}} {
		require.Equal(t, abi.AlreadyExists, abi.CodeOf(s.Start(ctx, clash)), "an ID is one workload's, of whatever kind")
	}
	for _, unclear := range []*workload.Spec{{ID: "none"}, {ID: "both", WASI: program.WASI, Process: shell.Process}} {
		require.Equal(t, abi.InvalidArgument, abi.CodeOf(s.Start(ctx, unclear)))
	}
	for _, id := range []string{"program", "process", "nobody"} {
		require.NoError(t, s.Destroy(ctx, id))
		_, err = s.Inspect(ctx, id)
		require.ErrorIs(t, err, abi.ErrTaskNotFound)
	}
}

func TestARuntimeReportsTheIsolationOfItsProcesses(t *testing.T) {
	missing := errors.New("no namespaces")
	r := mux.Runtime{Processes: isolating{full: missing}}
	require.NoError(t, r.CheckIsolation(workload.IsolationNone))
	require.Equal(t, missing, r.CheckIsolation(workload.IsolationFull))
}

// isolating is a runtime of processes of which some cannot be isolated.
type isolating struct {
	workload.Runtime
	full error
}

func (i isolating) CheckIsolation(isolation workload.Isolation) error {
	if isolation == workload.IsolationFull {
		return i.full
	}
	return nil
}
