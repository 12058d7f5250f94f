package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/process"
	"github.com/wasmnode/wasmnode/workload/process/isolate"
)

// As the kernel may for want of memory.
func TestWhatIsolatesProcessesIsReplacedWhenItWasKilled(t *testing.T) {
	w := newWorld(t)
	held := w.waitIsolated()
	for range 3 {
		pid := w.s.IsolatorPID()
		require.NotZero(t, pid)
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		w.ask("true") // also if it was asked before it ended
		require.NotEqual(t, pid, w.s.IsolatorPID())
	}
	require.NoError(t, w.exec(held.ID, nil, "true").err, "what was started goes on")
	require.Equal(t, 1, withToken(t, isolate.Program), "there is one at a time")
	require.NoError(t, w.s.Close())
	require.Zero(t, withToken(t, isolate.Program))
}

// Others of the user whose process it makes could look into it otherwise, or stop it.
func TestWhatIsolatesProcessesIsNobodysToLookInto(t *testing.T) {
	w := newWorld(t)
	w.ask("true")
	pid := w.s.IsolatorPID()
	looks := w.script(fmt.Sprintf(`for f in mem maps environ fd root exe; do ls /proc/%[1]d/$f >/dev/null 2>&1 && cat /proc/%[1]d/$f 2>/dev/null; done; kill -STOP %[1]d 2>/dev/null && echo stopped`, pid))
	looks.Process.User, looks.Process.Dir = "nobody", "/"
	require.NoError(t, w.s.Start(w.context(), looks))
	w.wait(looks)
	require.Empty(t, strings.TrimSpace(w.stdoutOf(looks)))
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	require.NoError(t, err)
	require.Equal(t, "wasmnode\n", string(name), "systemd tells of it by this")
}

// That is as long as a start takes, in small steps.
func TestWhatWasStartingWhenItsIsolatorWasKilledStartsOnce(t *testing.T) {
	w := newWorld(t)
	const processes = 4
	for delay := range 12 {
		w.ask("true")
		started := make(chan error, processes)
		var specs []*workload.Spec
		for range processes {
			spec := w.isolated("echo ran >>/local/ran")
			specs = append(specs, spec)
			go func() { started <- w.s.Start(w.context(), spec) }()
		}
		time.Sleep(time.Duration(delay) * time.Millisecond) // the instant is what is tried
		require.NoError(t, syscall.Kill(w.s.IsolatorPID(), syscall.SIGKILL))
		for range processes {
			require.NoError(t, <-started)
		}
		for _, spec := range specs {
			require.True(t, w.wait(spec).Successful())
			ran, err := os.ReadFile(filepath.Join(spec.Process.Isolated.Root, "local/ran"))
			require.NoError(t, err)
			require.Equal(t, "ran\n", string(ran))
		}
	}
	require.Zero(t, w.left())
	require.NoError(t, w.s.Close())
	_, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
	require.ErrorIs(t, err, unix.ECHILD, "none is left, also of those that have ended")
}

func TestAnIsolatedProcessExecutesNothingUntilItIsTold(t *testing.T) {
	w := newWorld(t)
	if !w.s.HasCgroup() {
		t.Skip("run as root where cgroup v2 is mounted")
	}
	for name, c := range map[string]struct {
		told     func(*process.Forked) error
		exits    int // with that status; -1: it is waited for already
		executed bool
	}{
		"told":      {func(f *process.Forked) error { return f.GoOn() }, 0, true},
		"given up":  {func(f *process.Forked) error { f.GiveUp(); return nil }, 127, false},
		"not known": {func(f *process.Forked) error { f.EndUnknown(); return nil }, -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			w.ask("true") // by an isolator that has not ended
			spec := w.isolated("echo >/local/ran")
			forked, err := w.s.ForkIsolated(w.context(), spec)
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(w.s.IsolatorPID(), syscall.SIGKILL)) // which changes nothing
			require.NoError(t, c.told(forked))
			var status unix.WaitStatus
			_, err = unix.Wait4(forked.PID, &status, 0, nil)
			if c.exits < 0 {
				require.ErrorIs(t, err, unix.ECHILD)
			} else {
				require.NoError(t, err)
				require.Equal(t, c.exits, status.ExitStatus())
			}
			_, err = os.Stat(filepath.Join(spec.Process.Isolated.Root, "local/ran"))
			require.Equal(t, c.executed, err == nil)
		})
	}
}
