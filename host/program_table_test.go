package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/workload"
)

// starter is the plugin "test" that starts the program of the task that it is called for.
func starter(t testing.TB, h *host.Host, maxPrograms int) *host.Plugin {
	t.Helper()
	message := mustMarshal(&wasmnodev1.WasmStartRequest{Module: "app.wasm"})
	p, err := h.Load(t.Context(), host.NewSource(guest(message, map[string][]byte{abi.OpDriverStartTask: ask(fnStart, len(message))}).Bytes()))
	require.NoError(t, err)
	t.Cleanup(p.Close)
	require.NoError(t, p.Configure(t.Context(), host.Grants{Wasm: host.WasmGrant{MaxPrograms: maxPrograms}}, []byte("{}")))
	return p
}

// endlessProgram is a program that runs until it is killed.
func endlessProgram() []byte {
	return (&modtest.Module{Pages: 1, Funcs: []modtest.Func{{Export: "_start", Body: modtest.Loop()}}}).Bytes()
}

// startProgram has a plugin start a program as a task's workload, and returns the code that
// it was answered with, 0 for none.
func startProgram(t testing.TB, p *host.Plugin, id string, program []byte) abi.Code {
	scope := taskScope(t)
	scope.Config.Id = id
	if err := os.WriteFile(filepath.Join(scope.Config.Directories.Task, "app.wasm"), program, 0o600); err != nil {
		t.Error(err)
	}
	out, err := p.Call(context.WithoutCancel(t.Context()), abi.OpDriverStartTask, nil, scope)
	if err != nil || len(out) < 8 {
		t.Errorf("starting %s: %v", id, err)
		return 0
	}
	var status uint64
	for i, b := range out[:8] {
		status |= uint64(b) << (8 * i)
	}
	code, _ := abi.SplitStatus(status)
	return abi.Code(code)
}

func TestAPluginStartsNoMoreProgramsThanGranted(t *testing.T) {
	w := newWorld(t, host.Limits{})
	p := starter(t, w.Host, 2)
	require.Zero(t, startProgram(t, p, "a", endlessProgram()))
	require.Zero(t, startProgram(t, p, "b", endlessProgram()))
	scope := taskScope(t)
	put(t, scope.Config.Directories.Task, "app.wasm", endlessProgram())
	out, err := p.Call(t.Context(), abi.OpDriverStartTask, nil, scope)
	require.NoError(t, err)
	refused := answeredError(t, out)
	require.Equal(t, abi.ResourceExhausted, refused.Code)
	require.Contains(t, refused.Message, "max_programs")
	require.True(t, refused.Recoverable, "a program may end")
	require.Equal(t, abi.AlreadyExists, startProgram(t, p, "b", endlessProgram()), "it needs no place of its own")
	require.NoError(t, w.workloads.Destroy(t.Context(), "a"))
	require.Zero(t, startProgram(t, p, "c", endlessProgram()))
}

func TestAnEndedProgramDoesNotCountForMaxPrograms(t *testing.T) {
	w := newWorld(t, host.Limits{})
	p := starter(t, w.Host, 1)
	require.Zero(t, startProgram(t, p, "a", endlessProgram()))
	require.NoError(t, w.workloads.Stop(t.Context(), "a", "SIGKILL", 0))
	require.Zero(t, startProgram(t, p, "b", endlessProgram()))
	require.Equal(t, abi.ResourceExhausted, startProgram(t, p, "c", endlessProgram()))
}

func TestAReloadOfAPluginDoesNotResetMaxPrograms(t *testing.T) {
	w := newWorld(t, host.Limits{})
	before := starter(t, w.Host, 1)
	require.Zero(t, startProgram(t, before, "a", endlessProgram()))
	after := starter(t, w.Host, 1)
	require.Equal(t, abi.ResourceExhausted, startProgram(t, after, "b", endlessProgram()))
	require.NoError(t, w.workloads.Destroy(t.Context(), "a"))
	require.Zero(t, startProgram(t, after, "b", endlessProgram()))
	require.Equal(t, abi.ResourceExhausted, startProgram(t, before, "c", endlessProgram()), "both versions count together while both are there")
}

func TestARestartOfTheAgentDoesNotResetMaxPrograms(t *testing.T) {
	w := newWorld(t, host.Limits{})
	require.Zero(t, startProgram(t, starter(t, w.Host, 1), "a", endlessProgram()))
	p := starter(t, w.hostOf(w.workloads), 1) // of the agent that is there then
	require.Equal(t, abi.ResourceExhausted, startProgram(t, p, "b", endlessProgram()))
	require.NoError(t, w.workloads.Destroy(t.Context(), "a"))
	require.Zero(t, startProgram(t, p, "b", endlessProgram()))
}

func TestAFailedStartGivesItsPlaceOfMaxProgramsBack(t *testing.T) {
	p := starter(t, newWorld(t, host.Limits{}).Host, 1)
	for range 3 {
		require.Equal(t, abi.InvalidArgument, startProgram(t, p, "a", []byte("not a program")))
	}
	require.Zero(t, startProgram(t, p, "a", endlessProgram()))
}

// countingRuntime remembers the most workloads that were seen running at once.
type countingRuntime struct {
	workload.Runtime
	most atomic.Int64
}

func (r *countingRuntime) Start(ctx context.Context, spec *workload.Spec) error {
	if err := r.Runtime.Start(ctx, spec); err != nil {
		return err
	}
	list, err := r.List(ctx)
	if err != nil {
		return err
	}
	running := int64(0)
	for _, s := range list {
		if s.State == workload.Running {
			running++
		}
	}
	for most := r.most.Load(); running > most && !r.most.CompareAndSwap(most, running); most = r.most.Load() {
	}
	return nil
}

func TestConcurrentStartsFillMaxProgramsAndNoMore(t *testing.T) {
	const limit, starts = 4, 16
	w := newWorld(t, host.Limits{})
	counting := &countingRuntime{Runtime: w.workloads}
	h := w.hostOf(counting)
	versions := []*host.Plugin{starter(t, h, limit), starter(t, h, limit)} // one replaces the other
	program := endlessProgram()

	codes := make([]abi.Code, starts)
	var all sync.WaitGroup
	for i := range starts {
		all.Go(func() { codes[i] = startProgram(t, versions[i%2], fmt.Sprintf("first/%d", i), program) })
	}
	all.Wait()
	var started []string
	for i, code := range codes {
		if code == 0 {
			started = append(started, fmt.Sprintf("first/%d", i))
		} else {
			require.Equal(t, abi.ResourceExhausted, code)
		}
	}
	require.Len(t, started, limit)
	for _, id := range started {
		require.NoError(t, w.workloads.Destroy(t.Context(), id))
	}

	for i := range starts {
		all.Go(func() {
			for n := range 20 {
				id := fmt.Sprintf("churn/%d/%d", i, n)
				if startProgram(t, versions[n%2], id, program) == 0 {
					if err := w.workloads.Destroy(context.Background(), id); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, limit, counting.most.Load())
	require.Zero(t, startProgram(t, versions[0], "last", program), "no place was lost")
}
