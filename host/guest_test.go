package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// start starts a task with a driver.
func start(ctx context.Context, p *host.Plugin, scope *host.TaskScope, config map[string]any) (*wasmnodev1.DriverStartTaskResponse, error) {
	b, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	scope.Config.DriverConfig = b
	answer := &wasmnodev1.DriverStartTaskResponse{}
	return answer, p.Invoke(ctx, host.Call{Op: abi.OpDriverStartTask, Task: scope.Config, Request: &wasmnodev1.DriverStartTaskRequest{Task: scope.Config}, Answer: answer})
}

func TestAFaultyGuestInGoIsReplaced(t *testing.T) {
	p := newWorld(t, host.Limits{}).ready(t, guestbuild.Plugin(t, "guest-examples/drivers/mock"), host.Grants{})
	for _, c := range []struct {
		fault string
		kind  host.FaultKind
		text  string
	}{
		// A panic ends a Go program with status 2, which is how Go guests trap.
		{"trap", "", "the fault is trap"},
		{"exit", host.FaultExit, "exit_code(3)"},
		{"loop", host.FaultTimeout, "deadline exceeded"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			limit := testTimeout
			if c.kind == host.FaultTimeout {
				limit = 300 * time.Millisecond
			}
			broken := taskScope(t)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := start(ctx, p, broken, map[string]any{"start_fault": c.fault})
			var fault *host.FaultError
			require.ErrorAs(t, err, &fault)
			if c.kind != "" {
				require.Equal(t, c.kind, fault.Kind)
			}
			require.Contains(t, fmt.Sprintf("%+v", err), c.text)
			scope := taskScope(t)
			answer, err := start(t.Context(), p, scope, map[string]any{"run_for": "1h", "stdout_string": "hello"})
			require.NoError(t, err)
			require.NotEmpty(t, answer.Handle.DriverState)
			stdout, err := os.ReadFile(scope.Config.StdoutPath + ".0")
			require.NoError(t, err)
			require.Contains(t, string(stdout), "hello")
		})
	}
}

func TestARealProgramRunsThroughARealDriver(t *testing.T) {
	w := newWorld(t, host.Limits{})
	p := w.ready(t, guestbuild.Plugin(t, "guest-examples/drivers/wasi"), host.Grants{})
	scope := taskScope(t)
	d := scope.Config.Directories
	d.Local, d.Secrets = filepath.Join(d.Task, "local"), filepath.Join(d.Task, "secrets")
	put(t, d.Local, "wc.wasm", guestbuild.Program(t, "guest-examples/programs/wordcount"))
	put(t, d.Local, "in.txt", []byte("one two two"))
	require.NoError(t, os.MkdirAll(d.Secrets, 0o700))
	answer, err := start(t.Context(), p, scope, map[string]any{"module": "local/wc.wasm", "args": []string{"/local/in.txt"}})
	require.NoError(t, err)
	require.Equal(t, scope.Config.Id, answer.Handle.WorkloadId)
	exit, err := w.workloads.Wait(t.Context(), scope.Config.Id)
	require.NoError(t, err)
	stderr, _ := os.ReadFile(scope.Config.StderrPath + ".0")
	require.Zero(t, exit.ExitCode, "%s", stderr)
	stdout, err := os.ReadFile(scope.Config.StdoutPath + ".0")
	require.NoError(t, err)
	require.Contains(t, string(stdout), `"two"`)
}

func TestManyTasksStartAtOnceInAGuestInGo(t *testing.T) {
	p := newWorld(t, host.Limits{Instances: 8, IdleInstances: 1}).ready(t, guestbuild.Plugin(t, "guest-examples/drivers/mock"), host.Grants{})
	var wg sync.WaitGroup
	for i := range 50 {
		scope := taskScope(t)
		scope.Config.Id = fmt.Sprint("task-", i)
		wg.Go(func() {
			answer, err := start(context.Background(), p, scope, map[string]any{"run_for": "1h", "start_block_for": "50ms"})
			if err != nil || len(answer.Handle.DriverState) == 0 {
				t.Errorf("%s: %v", scope.Config.Id, err)
			}
		})
	}
	wg.Wait()
	stats := p.Stats()
	require.LessOrEqual(t, stats.AtRest, 1)
	require.Positive(t, stats.Copies, "all but the first begin as copies")
	require.GreaterOrEqual(t, uint64(2), stats.Instances-stats.Copies, "what describes the plugin, and the first")
	require.LessOrEqual(t, stats.Instances, uint64(9), "those that wait take what others give back: what describes the plugin, and eight")
}
