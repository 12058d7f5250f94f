package task_test

import (
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/structs"
)

// greeter is an API that says hello to who connects.
type greeter struct {
	mu   sync.Mutex
	open int
}

func (g *greeter) ServeTask(l net.Listener) (stop func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open++
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello")
			_ = c.Close()
		}
	}()
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.open--
		_ = l.Close()
		<-ended
	}
}

// greeted connects as the task would: from within its secrets directory.
func greeted(t *testing.T, secrets string) error {
	t.Helper()
	dir, err := os.Open(secrets)
	require.NoError(t, err)
	defer dir.Close()
	c, err := net.Dial("unix", filepath.Join("/proc/self/fd", fmt.Sprint(dir.Fd()), task.APISocket))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // its end is what counts
	b, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, "hello", string(b))
	return nil
}

func (f *fixture) awaitState(state structs.TaskPhase) {
	f.t.Helper()
	require.Eventually(f.t, func() bool { return f.r.State().State == state }, time.Minute, time.Millisecond)
}

func TestATaskHasASocketOfTheAPIWhileItRuns(t *testing.T) {
	f := newFixture(t, map[string]any{"run_for": "1h"}).service()
	g := &greeter{}
	f.cfg.API = g
	secrets := filepath.Join(f.dir.Path(), "web/secrets")
	f.start()
	f.awaitState(structs.TaskRunning)
	require.NoError(t, greeted(t, secrets))
	info, err := os.Lstat(filepath.Join(secrets, task.APISocket))
	require.NoError(t, err)
	require.Equal(t, fs.ModeSocket|0o600, info.Mode())
	entries, err := os.ReadDir(f.dir.Path())
	require.NoError(t, err)
	require.Len(t, entries, 2, "what it was made in is gone")

	f.r.Shutdown()
	<-f.r.WaitCh()
	require.Error(t, greeted(t, secrets))
	// An agent that was killed leaves its socket, and a task may leave anything.
	for _, left := range []func(path string) error{
		func(string) error { return nil },
		func(path string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err == nil {
				l.SetUnlinkOnClose(false)
				err = l.Close()
			}
			return err
		},
		func(path string) error { return os.WriteFile(path, nil, 0o600) },
		func(path string) error { return os.Symlink("/nowhere", path) },
	} {
		require.NoError(t, left(filepath.Join(secrets, task.APISocket)))
		f.build()
		require.NoError(t, f.r.Restore())
		go f.r.Run()
		require.Eventually(t, func() bool { return greeted(t, secrets) == nil }, time.Minute, time.Millisecond)
		f.r.Shutdown()
		<-f.r.WaitCh()
	}
	f.build()
	require.NoError(t, f.r.Restore())
	go f.r.Run()
	f.awaitState(structs.TaskRunning)
	f.finish()
	require.Error(t, greeted(t, secrets))
	require.NoFileExists(t, filepath.Join(secrets, task.APISocket))
	require.Zero(t, g.open)
}

func TestALongPathHasASocketAndAWord(t *testing.T) {
	for _, c := range []struct {
		over  int
		token bool
		told  bool
	}{{0, true, false}, {1, true, true}, {100, true, true}, {100, false, false}} {
		f := newFixture(t, map[string]any{"run_for": "1h"}).service()
		f.task.Identity = &nomad.WorkloadIdentity{File: c.token}
		base := t.TempDir()
		rest := len(filepath.Join(base, "x", "a1", "web", "secrets", task.APISocket)) - 1
		require.Less(t, rest, 107, "the directory of the test is too long for it")
		f.dir = allocdir.New(filepath.Join(base, strings.Repeat("x", 107-rest+c.over)), "a1")
		require.NoError(t, os.MkdirAll(filepath.Dir(f.dir.Path()), 0o755))
		require.NoError(t, f.dir.Build())
		f.cfg.API = &greeter{}
		f.start()
		f.awaitState(structs.TaskRunning)
		require.NoError(t, greeted(t, filepath.Join(f.dir.Path(), "web/secrets")))
		require.Equal(t, c.told, strings.Contains(strings.Join(f.events(), "\n"), "programs connect to paths of at most 107: connect to api.sock from within $NOMAD_SECRETS_DIR"))
		f.finish()
	}
}

func TestATaskWithoutASocketGoesOn(t *testing.T) {
	f := newFixture(t, map[string]any{"run_for": "1h"}).service()
	f.cfg.API = &greeter{}
	f.task.Identity = &nomad.WorkloadIdentity{File: true}
	dir, err := f.dir.Task("web")
	require.NoError(t, err)
	require.NoError(t, dir.Build())
	require.NoError(t, os.MkdirAll(filepath.Join(dir.Secrets, task.APISocket), 0o700))
	f.start()
	f.awaitState(structs.TaskRunning)
	require.Contains(t, strings.Join(f.events(), "\n"), "Task hook failed: api: the task has no socket of the node's API: ")
	f.finish()
}

// A task with a file system of its own owns its directory, and can put a link there.
func TestASocketIsMadeInNoOtherDirectory(t *testing.T) {
	f := newFixture(t, map[string]any{"run_for": "1h"}).service()
	f.cfg.API = &greeter{}
	f.task.Identity = &nomad.WorkloadIdentity{File: true}
	f.start()
	f.awaitState(structs.TaskRunning)
	f.r.Shutdown()
	<-f.r.WaitCh()
	secrets, outside := filepath.Join(f.dir.Path(), "web/secrets"), t.TempDir()
	require.NoError(t, os.RemoveAll(secrets))
	require.NoError(t, os.Symlink(outside, secrets))
	f.build()
	require.NoError(t, f.r.Restore())
	go f.r.Run()
	require.Eventually(t, func() bool {
		return strings.Contains(strings.Join(f.events(), "\n"), "api: the task has no socket of the node's API: ")
	}, time.Minute, time.Millisecond)
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, entries)
	f.finish()
}
