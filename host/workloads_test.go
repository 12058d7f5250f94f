package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/workload"
)

// endure starts a process that only being killed ends, as a workload of a task: its own, or one
// beside it.
func endure(t testing.TB, w *world, scope *host.TaskScope, name string) {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready")
	spec := &workload.Spec{
		ID:   scope.Config.Id,
		Env:  map[string]string{"WHO": "me", "READY": ready},
		Logs: workload.Logs{Disabled: true},
		Process: &workload.Process{
			Command: "/bin/sh", Args: []string{"-c", `trap "" USR1 INT; : >"$READY"; while :; do sleep 1000; done`}, Dir: "/", Isolation: workload.IsolationNone,
		},
	}
	if name != "" {
		spec.ID, spec.Beside = spec.ID+"/"+name, spec.ID
	}
	require.NoError(t, w.workloads.Start(t.Context(), spec))
	require.Eventually(t, func() bool { _, err := os.Stat(ready); return err == nil }, testTimeout, time.Millisecond)
}

// asker is a plugin whose start_task hands a request over to a function of workload/v1.
func asker(t testing.TB, w *world, function string, r host.Message, grant host.ProcessGrant) *host.Plugin {
	t.Helper()
	message := mustMarshal(r)
	m := guest(message, map[string][]byte{abi.OpDriverStartTask: ask(fnStart, len(message)), abi.OpDriverFingerprint: ask(fnStart, len(message))})
	m.Imports[fnStart].Module, m.Imports[fnStart].Name = abi.ModuleWorkload, function
	m.Pages = 40
	return w.ready(t, m.Bytes(), host.Grants{Process: grant})
}

// askOf is what a function answers about a task's workloads.
func askOf[A host.Message](t testing.TB, w *world, scope *host.TaskScope, function string, r host.Message, into A) (A, *abi.Error) {
	t.Helper()
	out, err := asker(t, w, function, r, host.ProcessGrant{Commands: []string{"/bin/*"}}).Call(t.Context(), abi.OpDriverStartTask, nil, scope)
	require.NoError(t, err)
	code, message := decodeAnswer(t, out)
	if code != 0 {
		return into, answeredError(t, out)
	}
	require.NoError(t, into.UnmarshalVT(message))
	return into, nil
}

func TestADriverDealsWithEachWorkloadOfItsTask(t *testing.T) {
	w, scope := newWorld(t, host.Limits{}), taskScope(t)
	endure(t, w, scope, "")
	endure(t, w, scope, "side")
	for _, name := range []string{"side", ""} {
		waited, failed := askOf(t, w, scope, abi.FuncWorkloadWait, &wasmnodev1.WorkloadWaitRequest{Name: name}, &wasmnodev1.WorkloadWaitResponse{})
		require.Nil(t, failed)
		require.Nil(t, waited.Result)
		waited, failed = askOf(t, w, scope, abi.FuncWorkloadWait, &wasmnodev1.WorkloadWaitRequest{Name: name, TimeoutMs: 20}, &wasmnodev1.WorkloadWaitResponse{})
		require.Nil(t, failed)
		require.Nil(t, waited.Result)
		stats, failed := askOf(t, w, scope, abi.FuncWorkloadStats, &wasmnodev1.WorkloadStatsRequest{Name: name}, &wasmnodev1.WorkloadStatsResponse{})
		require.Nil(t, failed)
		require.NotZero(t, stats.Stats.GetMemoryRssBytes())
		state, failed := askOf(t, w, scope, abi.FuncWorkloadInspect, &wasmnodev1.WorkloadInspectRequest{Name: name}, &wasmnodev1.WorkloadInspectResponse{})
		require.Nil(t, failed)
		require.NotZero(t, state.StartedAtNs)
		require.Zero(t, state.ExitedAtNs)
		require.Nil(t, state.Result)
		ended, failed := askOf(t, w, scope, abi.FuncWorkloadExec, &wasmnodev1.WorkloadExecRequest{
			Name: name, Command: "/bin/sh", Args: []string{"-c", `cat; echo $WHO >&2; exit 3`}, Stdin: []byte("in"),
		}, &wasmnodev1.WorkloadExecResponse{})
		require.Nil(t, failed)
		require.EqualValues(t, 3, ended.ExitCode)
		require.Equal(t, "in, me\n", fmt.Sprintf("%s, %s", ended.Stdout, ended.Stderr))
		_, failed = askOf(t, w, scope, abi.FuncWorkloadSignal, &wasmnodev1.WorkloadSignalRequest{Name: name, Signal: "SIGUSR1"}, &wasmnodev1.WorkloadSignalResponse{})
		require.Nil(t, failed)
		_, failed = askOf(t, w, scope, abi.FuncWorkloadStop, &wasmnodev1.WorkloadStopRequest{Name: name, TimeoutMs: 10}, &wasmnodev1.WorkloadStopResponse{})
		require.Nil(t, failed)
		waited, failed = askOf(t, w, scope, abi.FuncWorkloadWait, &wasmnodev1.WorkloadWaitRequest{Name: name, TimeoutMs: -1}, &wasmnodev1.WorkloadWaitResponse{})
		require.Nil(t, failed)
		require.EqualValues(t, 9, waited.Result.GetSignal(), "which the other one is not told")
		state, failed = askOf(t, w, scope, abi.FuncWorkloadInspect, &wasmnodev1.WorkloadInspectRequest{Name: name}, &wasmnodev1.WorkloadInspectResponse{})
		require.Nil(t, failed)
		require.GreaterOrEqual(t, state.ExitedAtNs, state.StartedAtNs)
		require.EqualValues(t, 137, state.Result.GetExitCode())
	}
}

func TestAWorkloadThatIsNotTheTasksIsOutOfReach(t *testing.T) {
	w, scope, other := newWorld(t, host.Limits{}), taskScope(t), taskScope(t)
	other.Config.Id = scope.Config.Id + "1"
	endure(t, w, other, "")
	endure(t, w, other, "side")
	for name, code := range map[string]abi.Code{
		"": abi.NotFound, "side": abi.NotFound, "../" + other.Config.Id: abi.InvalidArgument, other.Config.Id: abi.InvalidArgument,
		"/": abi.InvalidArgument, "\x00": abi.InvalidArgument, strings.Repeat("a", 33): abi.InvalidArgument,
	} {
		for function, r := range map[string]host.Message{
			abi.FuncWorkloadSignal:  &wasmnodev1.WorkloadSignalRequest{Name: name, Signal: "SIGKILL"},
			abi.FuncWorkloadStop:    &wasmnodev1.WorkloadStopRequest{Name: name},
			abi.FuncWorkloadWait:    &wasmnodev1.WorkloadWaitRequest{Name: name, TimeoutMs: 1},
			abi.FuncWorkloadStats:   &wasmnodev1.WorkloadStatsRequest{Name: name},
			abi.FuncWorkloadInspect: &wasmnodev1.WorkloadInspectRequest{Name: name},
			abi.FuncWorkloadExec:    &wasmnodev1.WorkloadExecRequest{Name: name, Command: "/bin/true"},
		} {
			_, failed := askOf(t, w, scope, function, r, &wasmnodev1.WorkloadWaitResponse{})
			require.NotNil(t, failed, "%s of %q", function, name)
			require.Equal(t, code, failed.Code, "%s of %q: %s", function, name, failed.Message)
		}
	}
	list, err := w.workloads.List(t.Context())
	require.NoError(t, err)
	for _, s := range list {
		require.Equal(t, workload.Running, s.State)
	}
}

func TestWhatIsAskedOfAWorkloadIsBounded(t *testing.T) {
	w, scope := newWorld(t, host.Limits{}), taskScope(t)
	endure(t, w, scope, "")
	exec := func(change func(*wasmnodev1.WorkloadExecRequest)) host.Message {
		r := &wasmnodev1.WorkloadExecRequest{Command: "/bin/sh", Args: []string{"-c", "head -c 3000000 /dev/zero"}}
		change(r)
		return r
	}
	for name, c := range map[string]struct {
		function string
		r        host.Message
		code     abi.Code
		says     string
	}{
		"no signal":          {abi.FuncWorkloadSignal, &wasmnodev1.WorkloadSignalRequest{}, abi.InvalidArgument, "unknown signal"},
		"no such signal":     {abi.FuncWorkloadStop, &wasmnodev1.WorkloadStopRequest{Signal: "\x1b"}, abi.InvalidArgument, "unknown signal"},
		"a stop before now":  {abi.FuncWorkloadStop, &wasmnodev1.WorkloadStopRequest{TimeoutMs: -1}, abi.InvalidArgument, "from 0 to 86400000"},
		"a stop in a year":   {abi.FuncWorkloadStop, &wasmnodev1.WorkloadStopRequest{TimeoutMs: 86_400_001}, abi.InvalidArgument, "from 0 to 86400000"},
		"no command":         {abi.FuncWorkloadExec, exec(func(r *wasmnodev1.WorkloadExecRequest) { r.Command = "" }), abi.InvalidArgument, "not the absolute path"},
		"a bare command":     {abi.FuncWorkloadExec, exec(func(r *wasmnodev1.WorkloadExecRequest) { r.Command = "sh" }), abi.InvalidArgument, "not the absolute path"},
		"a way around":       {abi.FuncWorkloadExec, exec(func(r *wasmnodev1.WorkloadExecRequest) { r.Command = "/bin/../sbin/x" }), abi.InvalidArgument, "not the absolute path"},
		"another command":    {abi.FuncWorkloadExec, exec(func(r *wasmnodev1.WorkloadExecRequest) { r.Command = "/sbin/x" }), abi.PermissionDenied, `command /sbin/x is not granted: add plugin "test" { grant { process { commands = ["/sbin/x"] } } }`},
		"too many arguments": {abi.FuncWorkloadExec, exec(func(r *wasmnodev1.WorkloadExecRequest) { r.Args = make([]string, 257) }), abi.InvalidArgument, "257 arguments"},
		"a zero":             {abi.FuncWorkloadExec, exec(func(r *wasmnodev1.WorkloadExecRequest) { r.Args = []string{"\x00"} }), abi.InvalidArgument, "zero byte"},
		"too long":           {abi.FuncWorkloadExec, exec(func(r *wasmnodev1.WorkloadExecRequest) { r.TimeoutMs = 300_001 }), abi.InvalidArgument, "the limit is 300000"},
		"too much output":    {abi.FuncWorkloadExec, exec(func(r *wasmnodev1.WorkloadExecRequest) { r.OutputMaxBytes = 1<<20 + 1 }), abi.InvalidArgument, "the limit is 1048576"},
		"no such command":    {abi.FuncWorkloadExec, exec(func(r *wasmnodev1.WorkloadExecRequest) { r.Command = "/bin/none" }), abi.NotFound, "/bin/none"},
		"one that stays": {abi.FuncWorkloadExec, exec(func(r *wasmnodev1.WorkloadExecRequest) { r.Args, r.TimeoutMs = []string{"-c", "sleep 1000"}, 50 }),
			abi.DeadlineExceeded, "command /bin/sh ran for more than 50ms"},
	} {
		t.Run(name, func(t *testing.T) {
			_, failed := askOf(t, w, scope, c.function, c.r, &wasmnodev1.WorkloadExecResponse{})
			require.NotNil(t, failed)
			require.Equal(t, c.code, failed.Code, failed.Message)
			require.Contains(t, failed.Message, c.says)
		})
	}
	for _, most := range []uint64{0, 1 << 20} {
		ended, failed := askOf(t, w, scope, abi.FuncWorkloadExec, exec(func(r *wasmnodev1.WorkloadExecRequest) { r.OutputMaxBytes = most }), &wasmnodev1.WorkloadExecResponse{})
		require.Nil(t, failed)
		require.Len(t, ended.Stdout, int(max(most, 64<<10)))
		require.True(t, ended.StdoutCut)
		require.False(t, ended.StderrCut)
	}
	s, err := w.workloads.Inspect(t.Context(), scope.Config.Id)
	require.NoError(t, err)
	require.Equal(t, workload.Running, s.State)
}

func TestACallAboutNoTaskHasNoWorkloads(t *testing.T) {
	w := newWorld(t, host.Limits{})
	p := asker(t, w, abi.FuncWorkloadInspect, &wasmnodev1.WorkloadInspectRequest{}, host.ProcessGrant{})
	out, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	require.Equal(t, abi.FailedPrecondition, answeredError(t, out).Code)
}

// However long a guest asks to wait, it ends with its call; what it was to stop is killed when
// its time is over, all the same.
func TestAGuestThatWaitsForAWorkloadEndsAtItsDeadline(t *testing.T) {
	for function, r := range map[string]host.Message{
		abi.FuncWorkloadWait: &wasmnodev1.WorkloadWaitRequest{TimeoutMs: 1 << 62},
		abi.FuncWorkloadStop: &wasmnodev1.WorkloadStopRequest{TimeoutMs: 300},
		abi.FuncWorkloadExec: &wasmnodev1.WorkloadExecRequest{Command: "/bin/sleep", Args: []string{"1000"}, TimeoutMs: 300_000},
	} {
		t.Run(function, func(t *testing.T) {
			w, scope := newWorld(t, host.Limits{}), taskScope(t)
			endure(t, w, scope, "")
			p := asker(t, w, function, r, host.ProcessGrant{Commands: []string{"/bin/sleep"}})
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // of which nothing is for compiling
			defer cancel()
			_, err := p.Call(ctx, abi.OpDriverStartTask, nil, scope)
			var fault *host.FaultError
			require.ErrorAs(t, err, &fault)
			require.Equal(t, host.FaultTimeout, fault.Kind)
			if function == abi.FuncWorkloadStop {
				exit, err := w.workloads.Wait(t.Context(), scope.Config.Id)
				require.NoError(t, err)
				require.Equal(t, 9, exit.Signal)
			}
		})
	}
}
