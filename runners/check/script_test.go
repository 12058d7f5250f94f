package check_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/check"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// asCommand makes a check a command; args are the command's.
func asCommand(args ...string) func(*nomad.Service, *nomad.ServiceCheck) {
	return func(s *nomad.Service, c *nomad.ServiceCheck) {
		c.Type, c.Path, c.Command, c.Args, s.PortLabel = "script", "", "/bin/ask", args, ""
	}
}

// ending is a task whose commands end so.
func ending(t *testing.T, exit structs.ExitResult) check.Target {
	at := target(t, "127.0.0.1:1")
	at.Exec = func(_ context.Context, spec *workload.ExecSpec) (*structs.ExitResult, error) {
		_, err := fmt.Fprint(spec.Stdout, "out ")
		_, alsoErr := fmt.Fprint(spec.Stderr, "err")
		return &exit, errors.Join(err, alsoErr)
	}
	return at
}

func TestACommandsExitCodeIsTheChecksResult(t *testing.T) {
	ignoring := func(s *nomad.Service, c *nomad.ServiceCheck) {
		asCommand()(s, c)
		c.OnUpdate = nomad.OnUpdateIgnoreWarn
	}
	for name, c := range map[string]struct {
		exit   structs.ExitResult
		of     func(*nomad.Service, *nomad.ServiceCheck)
		status structs.CheckStatus
		output string
	}{
		"success":            {structs.ExitResult{}, asCommand(), structs.CheckSuccess, "out err"},
		"a warning":          {structs.ExitResult{ExitCode: 1}, asCommand(), structs.CheckFailure, "out err"},
		"an ignored warning": {structs.ExitResult{ExitCode: 1}, ignoring, structs.CheckSuccess, "out err"},
		"a failure":          {structs.ExitResult{ExitCode: 2}, ignoring, structs.CheckFailure, "out err"},
		"another failure":    {structs.ExitResult{ExitCode: 255}, asCommand(), structs.CheckFailure, "out err"},
		"a signal":           {structs.ExitResult{ExitCode: 137, Signal: 9}, asCommand(), structs.CheckFailure, "nomad: the command was ended by signal 9"},
		"nobody knows":       {structs.ExitResult{Err: "lost"}, asCommand(), structs.CheckFailure, `nomad: the command ended with "lost"`},
	} {
		got := newCheck(t, c.of).Probe(t.Context(), ending(t, c.exit))
		require.Equal(t, c.status, got.Status, name)
		require.Equal(t, c.output, got.Output, name)
		require.Equal(t, c.exit.ExitCode, got.StatusCode, name)
	}
}

func TestAWarningMayCountAsNoFailureOfTheTask(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		c := newCheck(t, func(s *nomad.Service, c *nomad.ServiceCheck) {
			asCommand()(s, c)
			c.CheckRestart = &nomad.CheckRestart{Limit: 1, IgnoreWarnings: ignore}
		})
		for code, fails := range map[int]bool{0: false, 1: !ignore, 2: true} {
			got := c.Probe(t.Context(), ending(t, structs.ExitResult{ExitCode: code}))
			require.Equal(t, fails, c.Fails(got), "code %d, warnings ignored: %v", code, ignore)
		}
	}
}

func TestACommandsReferencesAreReplaced(t *testing.T) {
	c := newCheck(t, func(s *nomad.Service, c *nomad.ServiceCheck) {
		asCommand("--token", "${TOKEN}")(s, c)
		c.Command = "/bin${AT}"
	})
	at := target(t, "127.0.0.1:1")
	at.Exec = func(_ context.Context, spec *workload.ExecSpec) (*structs.ExitResult, error) {
		require.Equal(t, "/bin/health", spec.Command)
		require.Equal(t, []string{"--token", "t"}, spec.Args)
		require.False(t, spec.TTY)
		return &structs.ExitResult{}, nil
	}
	require.Equal(t, structs.CheckSuccess, c.Probe(t.Context(), at).Status)
}

func TestACommandThatTakesTooLongHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := target(t, "127.0.0.1:1")
		at.Exec = func(ctx context.Context, _ *workload.ExecSpec) (*structs.ExitResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		begun := time.Now()
		got := newCheck(t, asCommand()).Probe(t.Context(), at)
		require.Equal(t, time.Minute, time.Since(begun))
		require.Equal(t, structs.CheckFailure, got.Status)
		require.Equal(t, "nomad: no answer within 1m0s", got.Output)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Equal(t, structs.CheckFailure, newCheck(t, asCommand()).Probe(ctx, at).Status, "it ends with who asks")
	})
}

func TestACommandThatCannotRunIsRefusedWithTheReason(t *testing.T) {
	at := target(t, "127.0.0.1:1")
	at.Exec = func(context.Context, *workload.ExecSpec) (*structs.ExitResult, error) {
		return nil, errors.New("driver x does not run commands in its tasks")
	}
	got := newCheck(t, asCommand()).Probe(t.Context(), at)
	require.Equal(t, structs.CheckFailure, got.Status)
	require.Equal(t, "nomad: driver x does not run commands in its tasks", got.Output)
}

func TestACommandsOutputIsBounded(t *testing.T) {
	at := target(t, "127.0.0.1:1")
	at.Exec = func(_ context.Context, spec *workload.ExecSpec) (*structs.ExitResult, error) {
		for range 1000 {
			n, err := spec.Stdout.Write([]byte("0123456789"))
			require.NoError(t, err)
			require.Equal(t, 10, n, "whoever writes is not to be ended by it")
		}
		_, err := spec.Stderr.Write([]byte("late"))
		return &structs.ExitResult{ExitCode: 2}, err
	}
	got := newCheck(t, asCommand()).Probe(t.Context(), at)
	require.Len(t, got.Output, 3<<10)
	require.True(t, strings.HasPrefix(got.Output, "0123456789"))
}

func TestWhatACommandCannotBe(t *testing.T) {
	s := service(asCommand())
	_, err := check.New(s, &s.Checks[0], "")
	require.EqualError(t, err, "task: the check of a group's service has to name the task to run its command in")
	s.Checks[0].TaskName = "app"
	_, err = check.New(s, &s.Checks[0], "")
	require.NoError(t, err)
	s.Checks[0].Command = ""
	_, err = check.New(s, &s.Checks[0], "")
	require.EqualError(t, err, "command: a script check needs one")

	s = service(func(s *nomad.Service, c *nomad.ServiceCheck) {
		asCommand()(s, c)
		c.TaskName = "missing"
	})
	checks, err := check.OfGroup(&nomad.TaskGroup{Services: []*nomad.Service{s}, Tasks: []*nomad.Task{{Name: "app"}}})
	require.EqualError(t, err, `service "web": check "alive": task: the group has no task "missing"`)
	require.Empty(t, checks)
}
