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
}

func TestAnIsolatedProcessExecutesNothingUntilItIsTold(t *testing.T) {
	w := newWorld(t)
	for name, told := range map[string]bool{"told": true, "given up": false} {
		t.Run(name, func(t *testing.T) {
			w.ask("true") // by an isolator that has not ended
			spec := w.isolated("echo >/local/ran")
			pid, goOn, giveUp, err := w.s.ForkIsolated(w.context(), spec)
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(w.s.IsolatorPID(), syscall.SIGKILL)) // which changes nothing
			ran := filepath.Join(spec.Process.Isolated.Root, "local/ran")
			want := 127
			if told {
				want = 0
				require.NoError(t, goOn())
			} else {
				giveUp()
			}
			var status unix.WaitStatus
			_, err = unix.Wait4(pid, &status, 0, nil)
			require.NoError(t, err)
			require.Equal(t, want, status.ExitStatus())
			require.Equal(t, told, fileExists(ran))
		})
	}
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
