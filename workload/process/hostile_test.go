package process_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload/logfile"
	"github.com/wasmnode/wasmnode/workload/process"
)

// A tree of 64 shells that start processes as fast as they can.
const forkBomb = `
	grow() {
		if [ "$1" -eq 0 ]; then while :; do (:); done; fi
		grow $(($1 - 1)) & grow $(($1 - 1)) & wait
	}
	grow 6 & echo ready; wait`

func TestForkBombEndsWithinItsTime(t *testing.T) {
	for name, cgroup := range map[string]bool{"cgroup": true, "session": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if !cgroup {
				require.NoError(t, w.s.WithoutCgroup())
			}
			spec := w.start(forkBomb)
			w.ready(spec)
			require.Eventually(t, func() bool { return w.left() > 64 }, testTimeout, time.Millisecond)
			began := time.Now()
			require.NoError(t, w.s.Stop(w.context(), spec.ID, "SIGHUP", 0))
			require.Less(t, time.Since(began), testTimeout)
			require.Zero(t, w.left())
			require.NotZero(t, w.wait(spec).Signal)
		})
	}
}

func TestDaemonEndsWithItsTask(t *testing.T) {
	w := newWorld(t)
	if !w.s.HasCgroup() {
		t.Skip("a daemon is found by its cgroup only; run as root where cgroup v2 is mounted")
	}
	defer process.WaitForOutput(time.Hour)()
	result, stdoutOf := w.run(`setsid sh -c '(while :; do sleep 100; done) & echo $!' "$0" & wait; exit 3`)
	require.Equal(t, &structs.ExitResult{ExitCode: 3}, result)
	require.NotEmpty(t, stdoutOf)
	require.Zero(t, w.left(), "it is gone when the task has ended, and what it held open was not waited for")
}

func TestOutputIsReadHoweverLateItIs(t *testing.T) {
	text := strings.Repeat("0123456789abcde\n", 4<<10) // as much as a pipe holds
	read, err := process.ReadLate(text)
	require.NoError(t, err)
	require.True(t, text == read, "%d of %d bytes", len(read), len(text))
}

func TestEscapedDaemonDoesNotHoldUpTheEnd(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.s.WithoutCgroup())
	result, _ := w.run(`setsid sh -c 'echo >started; while :; do echo more; done' "$0" & until [ -e started ]; do :; done; exit 4`)
	require.Equal(t, &structs.ExitResult{ExitCode: 4}, result)
	require.Eventually(t, func() bool { return w.left() == 0 }, testTimeout, 10*time.Millisecond, "nobody listens to it any more")
}

func TestTaskThatIgnoresItsSignalIsKilled(t *testing.T) {
	w := newWorld(t)
	spec := w.start(`trap '' TERM INT HUP; echo ready; while :; do sleep 0.05; done`)
	w.ready(spec)
	began := time.Now()
	require.NoError(t, w.s.Stop(w.context(), spec.ID, "SIGTERM", 300*time.Millisecond))
	require.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond, "not before its time")
	require.Less(t, time.Since(began), testTimeout)
	require.Equal(t, &structs.ExitResult{ExitCode: 137, Signal: 9}, w.wait(spec))
}

// Whoever stops waiting for a stop has asked for it all the same.
func TestTheKillComesThoughNobodyWaitsForTheStop(t *testing.T) {
	w := newWorld(t)
	spec := w.start(`trap '' TERM; echo ready; while :; do sleep 0.05; done`)
	w.ready(spec)
	gone, cancel := context.WithCancel(w.context())
	cancel()
	require.ErrorIs(t, w.s.Stop(gone, spec.ID, "SIGTERM", 50*time.Millisecond), context.Canceled)
	require.Equal(t, &structs.ExitResult{ExitCode: 137, Signal: 9}, w.wait(spec))
}

func TestStoppedTaskIsKilled(t *testing.T) {
	w := newWorld(t)
	spec := w.start(`echo $$; kill -STOP $$; exit 0`)
	pid, err := strconv.Atoi(w.ready(spec))
	require.NoError(t, err)
	task, err := procfs.NewProc(pid)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		stat, err := task.Stat()
		return err == nil && stat.State == "T"
	}, testTimeout, time.Millisecond)
	require.NoError(t, w.s.Stop(w.context(), spec.ID, "SIGTERM", 10*time.Millisecond))
	require.Equal(t, &structs.ExitResult{ExitCode: 137, Signal: 9}, w.wait(spec))
}

func TestTaskThatClosesItsOutputGoesOn(t *testing.T) {
	w := newWorld(t)
	result, stdoutOf := w.run(`echo before; exec >&- 2>&-; sleep 0.1; exit 5`)
	require.Equal(t, &structs.ExitResult{ExitCode: 5}, result)
	require.Equal(t, "before\n", stdoutOf)
}

func TestOutputWithoutEndIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"100 MB": `head -c 100000000 /dev/zero; echo last`,
		"a hundred thousand lines without an end": `i=0; while [ $i -lt 100000 ]; do printf 'line %d ' $i; i=$((i+1)); done; echo last`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			spec := w.start(text)
			require.True(t, w.wait(spec).Successful())
			numbers, err := logfile.Numbers(spec.Logs.StdoutPath)
			require.NoError(t, err)
			require.LessOrEqual(t, len(numbers), spec.Logs.MaxFiles)
			stdoutOf := w.stdoutOf(spec)
			require.LessOrEqual(t, len(stdoutOf), spec.Logs.MaxFiles*int(spec.Logs.MaxFileBytes))
			require.True(t, strings.HasSuffix(stdoutOf, "last\n"))
		})
	}
}

func TestTaskThatDeletesItsDirectoryEnds(t *testing.T) {
	w := newWorld(t)
	spec := w.start(`rm -rf "$PWD"; echo gone; exit 6`)
	require.Equal(t, &structs.ExitResult{ExitCode: 6}, w.wait(spec))
	require.NoDirExists(t, spec.Process.Dir)
}
