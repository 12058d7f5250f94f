package drivers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// streamWorld is one whose driver has the streams of commands, and runs them as run does.
func streamWorld(t *testing.T, run func(context.Context, *wasmnodev1.DriverExecTaskRequest, host.Call) error) (*world, *Driver) {
	w, p, d := execWorld(t, true)
	p.Imports = []string{abi.ModuleExec}
	p.On(abi.OpDriverExecTask, func(ctx context.Context, c host.Call) error {
		return run(ctx, c.Request.(*wasmnodev1.DriverExecTaskRequest), c)
	})
	return w, d
}

// exits answers with an exit code.
func exits(c host.Call, code int32) error {
	c.Answer.(*wasmnodev1.DriverExecTaskResponse).Result = &wasmnodev1.ExitResult{ExitCode: code}
	return nil
}

// closeAll closes what a host closes at the end of a call.
func closeAll(s host.CommandStreams) {
	for _, c := range []io.Closer{s.Stdin, s.Stdout, s.Stderr} {
		_ = c.Close()
	}
}

func TestADriverThatTakesStreamsRunsCommandsBesideAWorkload(t *testing.T) {
	for name, h := range map[string]*wasmnodev1.TaskHandle{"a workload": workloadHandle, "none": handle} {
		t.Run(name, func(t *testing.T) {
			w, d := streamWorld(t, func(_ context.Context, r *wasmnodev1.DriverExecTaskRequest, c host.Call) error {
				require.Equal(t, []string{"cat", "-"}, r.Command)
				require.True(t, r.Tty)
				require.True(t, r.Size.EqualVT(&wasmnodev1.TerminalSize{Rows: 24, Columns: 80}), "%v", r.Size)
				require.Zero(t, r.TimeoutMs)
				s := c.Streams()
				defer closeAll(s)
				require.Equal(t, workload.Size{Rows: 7, Columns: 9}, <-s.Sizes)
				_, err := io.Copy(s.Stdout, s.Stdin)
				require.NoError(t, err)
				_, err = io.WriteString(s.Stderr, "oops")
				require.NoError(t, err)
				return exits(c, 6)
			})
			var stdout, stderr bytes.Buffer
			sizes := make(chan workload.Size, 1)
			sizes <- workload.Size{Rows: 7, Columns: 9}
			exit, err := d.ExecTask(t.Context(), web, h, &workload.ExecSpec{
				Command: "cat", Args: []string{"-"}, TTY: true, Resize: sizes, Stdin: strings.NewReader("input"), Stdout: &stdout, Stderr: &stderr,
			})
			require.NoError(t, err)
			require.Equal(t, &structs.ExitResult{ExitCode: 6}, exit)
			require.Equal(t, "input", stdout.String())
			require.Equal(t, "oops", stderr.String())
			require.Empty(t, w.workloads.said(), "the host was not asked")
		})
	}
}

func TestADriverCanLeaveACommandToTheHost(t *testing.T) {
	unimplemented := abi.NewError(abi.Unimplemented, "not this one")
	w, d := streamWorld(t, func(context.Context, *wasmnodev1.DriverExecTaskRequest, host.Call) error { return unimplemented })
	var stdout bytes.Buffer
	exit, err := d.ExecTask(t.Context(), web, workloadHandle, &workload.ExecSpec{Command: "ls", Stdin: strings.NewReader("not read"), Stdout: &stdout})
	require.NoError(t, err)
	require.Equal(t, &structs.ExitResult{ExitCode: 5}, exit)
	require.Equal(t, "by the host", stdout.String())
	require.Equal(t, []string{"exec ls"}, w.workloads.said())
	_, err = d.ExecTask(t.Context(), web, handle, &workload.ExecSpec{Command: "ls"})
	require.EqualError(t, err, "not this one")
	// Not once it has taken the input.
	_, d = streamWorld(t, func(_ context.Context, _ *wasmnodev1.DriverExecTaskRequest, c host.Call) error {
		closeAll(c.Streams())
		return unimplemented
	})
	_, err = d.ExecTask(t.Context(), web, workloadHandle, &workload.ExecSpec{Command: "ls"})
	require.EqualError(t, err, "driver fake: driver_exec_task answered UNIMPLEMENTED after it had opened the command's streams")
}

// A driver gets to know that nobody waits for its command, and has a moment to end it.
func TestACommandThatNobodyWaitsForIsEnded(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(ctx context.Context, s host.CommandStreams) // after the client has gone
		took time.Duration
	}{
		"at once": {func(_ context.Context, s host.CommandStreams) {
			_, err := s.Stdin.Read(make([]byte, 1))
			require.ErrorIs(t, err, errDetached)
			_, err = s.Stdout.Write([]byte("x"))
			require.ErrorIs(t, err, errDetached)
		}, 0},
		"by force": {func(ctx context.Context, _ host.CommandStreams) {
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), errDetached, "and not a deadline that the driver has missed")
		}, detachGrace},
	} {
		t.Run(name, func(t *testing.T) {
			_, d := streamWorld(t, func(ctx context.Context, _ *wasmnodev1.DriverExecTaskRequest, call host.Call) error {
				s := call.Streams()
				defer closeAll(s)
				c.run(ctx, s)
				return errors.New("of no interest")
			})
			synctest.Test(t, func(t *testing.T) {
				stdin, keys := io.Pipe()
				defer func() { _ = keys.Close() }()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				begin := time.Now()
				_, err := d.ExecTask(ctx, web, handle, &workload.ExecSpec{Command: "sleep", Stdin: stdin})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, time.Minute+c.took, time.Since(begin))
			})
		})
	}
}

// broken takes nothing.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("nobody reads") }

func TestACommandEndsWhenItsOutputIsNotTaken(t *testing.T) {
	_, d := streamWorld(t, func(_ context.Context, _ *wasmnodev1.DriverExecTaskRequest, c host.Call) error {
		s := c.Streams()
		defer closeAll(s)
		for {
			if _, err := s.Stderr.Write([]byte("y\n")); err != nil {
				return err
			}
		}
	})
	_, err := d.ExecTask(t.Context(), web, handle, &workload.ExecSpec{Command: "yes", Stderr: broken{}})
	require.EqualError(t, err, "the command's output: nobody reads")
}

// What a driver without streams refuses, it refuses as before.
func TestADriverWithoutStreamsIsAskedForNoTerminal(t *testing.T) {
	_, p, d := execWorld(t, true)
	p.On(abi.OpDriverExecTask, func(context.Context, host.Call) error { panic("it cannot be asked") })
	_, err := d.ExecTask(t.Context(), web, handle, &workload.ExecSpec{Command: "ls", TTY: true})
	require.EqualError(t, err, "driver fake runs commands without a terminal only")
}
