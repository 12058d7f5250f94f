package drivers

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/internal/catalogtest"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// execWorld is a driver whose tasks can have commands.
func execWorld(t *testing.T, capable bool) (*world, *catalogtest.Plugin, *Driver) {
	w, p, d := driverWorld(t)
	p.Capabilities = &wasmnodev1.DriverCapabilities{Exec: capable}
	w.workloads.start(web.Id)
	return w, p, d
}

// inDriver answers as a driver that runs a command.
func inDriver(t *testing.T, command ...string) func(context.Context, host.Call) error {
	return func(_ context.Context, c host.Call) error {
		r := c.Request.(*wasmnodev1.DriverExecTaskRequest)
		require.Equal(t, command, r.Command)
		require.Equal(t, web.Id, r.TaskId)
		*c.Answer.(*wasmnodev1.DriverExecTaskResponse) = wasmnodev1.DriverExecTaskResponse{
			Stdout: []byte("by the driver"), Stderr: []byte("oops"), Result: &wasmnodev1.ExitResult{ExitCode: 6},
		}
		return nil
	}
}

func TestTheHostRunsCommandsWhereThereIsAWorkload(t *testing.T) {
	w, p, d := execWorld(t, true)
	p.On(abi.OpDriverExecTask, func(context.Context, host.Call) error { panic("nobody asked") })
	var stdout bytes.Buffer
	exit, err := d.ExecTask(t.Context(), web, workloadHandle, &workload.ExecSpec{Command: "ls", TTY: true, Stdout: &stdout})
	require.NoError(t, err)
	require.Equal(t, &structs.ExitResult{ExitCode: 5}, exit)
	require.Equal(t, "by the host", stdout.String())
	require.Equal(t, []string{"exec ls"}, w.workloads.said())
}

func TestTheDriverRunsCommandsThatTheHostCannot(t *testing.T) {
	for name, h := range map[string]*wasmnodev1.TaskHandle{"no workload": handle, "a workload that has no commands": workloadHandle} {
		t.Run(name, func(t *testing.T) {
			_, p, d := execWorld(t, true)
			p.On(abi.OpDriverExecTask, inDriver(t, "impossible", "-a"))
			var stdout, stderr bytes.Buffer
			spec := &workload.ExecSpec{Command: "impossible", Args: []string{"-a"}, Stdin: strings.NewReader("not read"), Stdout: &stdout, Stderr: &stderr}
			exit, err := d.ExecTask(t.Context(), web, h, spec)
			require.NoError(t, err)
			require.Equal(t, &structs.ExitResult{ExitCode: 6}, exit)
			require.Equal(t, "by the driver", stdout.String())
			require.Equal(t, "oops", stderr.String())
		})
	}
}

func TestACommandThatNeitherDriverNorHostCanRunIsRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		capable bool
		handle  *wasmnodev1.TaskHandle
		tty     bool
		says    string
	}{
		{"a driver that says no", false, workloadHandle, false, "driver fake does not run commands in its tasks"},
		{"no workload and no operation", true, handle, false, "driver fake does not have driver_exec_task"},
		{"no workload and a terminal", true, handle, true, "driver fake runs commands without a terminal only"},
		{"a workload that has none", true, workloadHandle, false, "no commands in this workload"},
		{"a workload that has none, and a terminal", true, workloadHandle, true, "no commands in this workload"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, d := execWorld(t, c.capable)
			_, err := d.ExecTask(t.Context(), web, c.handle, &workload.ExecSpec{Command: "impossible", TTY: c.tty})
			require.Equal(t, abi.Unimplemented, abi.CodeOf(err))
			require.EqualError(t, err, c.says)
		})
	}
	_, p, d := execWorld(t, true)
	p.On(abi.OpDriverExecTask, func(context.Context, host.Call) error { return nil })
	_, err := d.ExecTask(t.Context(), web, handle, &workload.ExecSpec{Command: "ls"})
	require.EqualError(t, err, "driver fake: driver_exec_task answered no result")
}
