package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/pluginlock"
)

// stalled is an installation of a bundle that comes slowly: its first plugin is written to the
// directory and does not have its name yet.
type stalled struct {
	cmd    *exec.Cmd
	stderr *bytes.Buffer
}

// stall begins one.
func (w workshop) stall(t *testing.T, bundle, dir string) stalled {
	t.Helper()
	pipe := filepath.Join(t.TempDir(), "slow.tar")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	s := stalled{exec.Command(binary, "plugin", "install", "-plugin-dir", dir, pipe), &bytes.Buffer{}}
	s.cmd.Dir, s.cmd.Stderr = w.dir, s.stderr
	s.cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+w.dir)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	to, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = to.Close() })
	_, err = to.WriteString(bundle[:len(bundle)-len(bundle)/3]) // of two plugins, more than the first
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(hidden(t, dir)) == 1 }, testTimeout, tick)
	return s
}

// hidden are the files of a directory that no catalog looks at.
func hidden(t *testing.T, dir string) (all []string) {
	t.Helper()
	for _, name := range names(t, dir) {
		if strings.HasPrefix(name, ".") {
			all = append(all, name)
		}
	}
	return all
}

// TestAnInstallationThatIsEndedLeavesTheDirectoryAsItWas ends some half-way, and has another
// wait for one.
func TestAnInstallationThatIsEndedLeavesTheDirectoryAsItWas(t *testing.T) {
	w, from := newWorkshop(t), t.TempDir()
	write(t, filepath.Join(from, "mock_driver.wasm"), string(driver(t, "mock")))
	write(t, filepath.Join(from, "raw_exec.wasm"), string(driver(t, "raw_exec")))
	w.does(t, "plugin", "lock", from)
	w.does(t, "plugin", "bundle", "-o", "all.tar", from)
	bundle, to := read(t, filepath.Join(w.dir, "all.tar")), t.TempDir()

	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		s := w.stall(t, bundle, to)
		holder := fmt.Sprintf(`.* is being changed by process %d \(wasmnode.*\): try again when it is done, or end it`, s.cmd.Process.Pid)
		wants(t, w.run(t, "", "plugin", "install", "-wait", "10ms", "-plugin-dir", to, "all.tar"), 1, holder)
		wants(t, w.run(t, "", "plugin", "lock", "-wait", "10ms", to), 1, holder)
		require.NoError(t, s.cmd.Process.Signal(signal))
		require.Error(t, s.cmd.Wait())
		assert.Equal(t, 1, s.cmd.ProcessState.ExitCode())
		assert.Equal(t, "Error: interrupted: nothing was changed\n", s.stderr.String())
		assert.Empty(t, names(t, to))
	}

	s := w.stall(t, bundle, to)
	require.NoError(t, s.cmd.Process.Kill())
	require.Error(t, s.cmd.Wait())
	left := hidden(t, to)
	r := w.run(t, "", "plugin", "install", "-plugin-dir", to, "all.tar")
	require.Zero(t, r.code, r.stderr)
	assert.Equal(t, "removed what an installation that was killed has left in "+to+": "+left[0]+"\n", r.stderr)
	assert.Equal(t, filesOf(t, from), filesOf(t, to))
}

// TestABundlesFilesAreCalledAfterTheirPlugins: one that is not would want the name of the file
// that is.
func TestABundlesFilesAreCalledAfterTheirPlugins(t *testing.T) {
	w, from, to := newWorkshop(t), t.TempDir(), t.TempDir()
	write(t, filepath.Join(from, "other.wasm"), string(driver(t, "mock")))
	w.does(t, "plugin", "lock", from)
	wants(t, w.run(t, "", "plugin", "bundle", from), 1, `.*/other\.wasm: it calls itself "mock_driver": in a bundle its file has to be mock_driver\.wasm`)

	lock, err := pluginlock.Read(from)
	require.NoError(t, err)
	bundle := func(l *pluginlock.Lock) {
		var b bytes.Buffer
		require.NoError(t, l.WriteBundle(&b, from, 1<<30))
		write(t, filepath.Join(w.dir, "b.tar"), b.String())
	}
	bundle(lock)
	wants(t, w.run(t, "", "plugin", "install", "-plugin-dir", to, "b.tar"), 1, `b\.tar: other\.wasm: it calls itself "mock_driver": in a bundle its file has to be mock_driver\.wasm`)
	e := lock.Plugins[0]
	e.Name = "other"
	bundle(lock.With(e))
	wants(t, w.run(t, "", "plugin", "install", "-plugin-dir", to, "b.tar"), 1, `b\.tar: other\.wasm: it calls itself "mock_driver", its lock says "other"`)
	assert.Empty(t, names(t, to))
}
