package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// taskWithFiles is a task of an allocation with directories as the node makes them.
func taskWithFiles(t *testing.T, name string) *host.TaskScope {
	t.Helper()
	scope := taskScope(t)
	alloc := t.TempDir()
	scope.Config.Id = "alloc/" + name + "/1"
	scope.Config.Directories = &wasmnodev1.TaskDirectories{
		Alloc: alloc, Shared: filepath.Join(alloc, "alloc"), Task: filepath.Join(alloc, name),
		Local: filepath.Join(alloc, name, "local"), Secrets: filepath.Join(alloc, name, "secrets"),
	}
	for path, content := range map[string]string{
		name + "/local/file": "of " + name, name + "/secrets/token": "secret of " + name, "alloc/data/shared": "shared by " + name, "other/secrets/token": "of another task",
	} {
		put(t, alloc, path, []byte(content))
	}
	return scope
}

// does has the guest do something with a file in a call about a task.
func does(t *testing.T, p *host.Plugin, scope *host.TaskScope, do, path string) string {
	t.Helper()
	answer := &wasmnodev1.DriverStartTaskResponse{}
	config := *scope.Config
	config.DriverConfig = fmt.Appendf(nil, `{"do": %q, "path": %q}`, do, path)
	require.NoError(t, p.Invoke(t.Context(), host.Call{
		Op: abi.OpDriverStartTask, Task: &config, Request: &wasmnodev1.DriverStartTaskRequest{Task: &config}, Answer: answer,
	}))
	return string(answer.GetHandle().GetDriverState())
}

func TestADriverSeesTheDirectoryOfTheTaskThatACallIsAbout(t *testing.T) {
	p := newWorld(t, host.Limits{}).ready(t, guestbuild.Plugin(t, "host/testdata/files"), host.Grants{})
	var wg sync.WaitGroup
	for n := range 4 {
		name := fmt.Sprint("web", n)
		scope := taskWithFiles(t, name)
		wg.Go(func() {
			for range 3 {
				for path, want := range map[string]string{
					"TASK/local/file": "of " + name, "/task/secrets/token": "secret of " + name, "ALLOC/data/shared": "shared by " + name,
					"/task/alloc/data/shared": "shared by " + name,
				} {
					if got := does(t, p, scope, "read", path); got != want {
						t.Errorf("%s: %q", path, got)
					}
				}
			}
		})
	}
	wg.Wait()
	scope := taskWithFiles(t, "web")
	require.Equal(t, "[local secrets]", does(t, p, scope, "list", "TASK"))
	require.Equal(t, "[data]", does(t, p, scope, "list", "ALLOC"))
	require.Equal(t, "ok", does(t, p, scope, "write", "TASK/local/new"))
	require.Equal(t, "ok", does(t, p, scope, "rename", "TASK/local/new"))
	content, err := os.ReadFile(filepath.Join(scope.Config.Directories.Local, "new.new"))
	require.NoError(t, err)
	require.Equal(t, "written", string(content))

	answer := &wasmnodev1.DriverFingerprintResponse{}
	require.NoError(t, p.Invoke(t.Context(), host.Call{Op: abi.OpDriverFingerprint, Request: &wasmnodev1.DriverFingerprintRequest{}, Answer: answer}))
	require.Equal(t, "[]open /task/local/file: No such file or directoryopen /task/new: No such file or directory", answer.Description, "it is about no task")
	require.NoError(t, os.RemoveAll(scope.Config.Directories.Task))
	require.Contains(t, does(t, p, scope, "read", "TASK/local/file"), "No such file")
}

// A task can do with its directory what it likes: also with what the driver looks for there.
func TestATasksLinksLeadItsDriverNowhereElse(t *testing.T) {
	p := newWorld(t, host.Limits{}).ready(t, guestbuild.Plugin(t, "host/testdata/files"), host.Grants{})
	scope := taskWithFiles(t, "web")
	d := scope.Config.Directories
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("the node's"), 0o600))
	for name, target := range map[string]string{
		"absolute": filepath.Join(outside, "secret"), "dir": outside, "up": "../..", "other": "../../other/secrets/token", "proc": "/proc/self/root",
		"chain": "up", "new": filepath.Join(outside, "planted"), "within": "file",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(d.Local, name)))
	}
	for _, path := range []string{"absolute", "dir/secret", "up/other/secrets/token", "chain/other/secrets/token", "other", "proc/etc/passwd"} {
		require.Contains(t, does(t, p, scope, "read", "TASK/local/"+path), "ermi", path)
		require.Contains(t, does(t, p, scope, "write", "TASK/local/"+path), "ermi", path)
	}
	require.Contains(t, does(t, p, scope, "write", "TASK/local/new"), "ermi")
	require.NoFileExists(t, filepath.Join(outside, "planted"))
	require.Equal(t, "of web", does(t, p, scope, "read", "TASK/local/within"))
	require.Contains(t, does(t, p, scope, "link", "TASK/local/etc"), "ermi", "and the driver makes none")
	for _, path := range []string{"/task/../etc/passwd", "/etc/passwd", "/task/local/../../../../etc/passwd", "/proc/self/environ"} {
		require.NotContains(t, does(t, p, scope, "read", path), "root:", path)
	}

	// The directory itself, replaced by one who may write beside it.
	require.NoError(t, os.Rename(d.Task, d.Task+".old"))
	require.NoError(t, os.Symlink(outside, d.Task))
	require.Contains(t, does(t, p, scope, "read", "TASK/secret"), "ermi")
	require.NoError(t, os.Remove(d.Task))
	require.NoError(t, os.WriteFile(d.Task, nil, 0o600))
	require.Contains(t, does(t, p, scope, "read", "TASK/secret"), "ermi", "not even a directory")
}

// What a call leaves open is no way into a task's directory for the next one.
func TestAFileThatIsLeftOpenEndsWithItsCall(t *testing.T) {
	p := newWorld(t, host.Limits{IdleInstances: 1}).ready(t, guestbuild.Plugin(t, "host/testdata/files"), host.Grants{})
	one, two := taskWithFiles(t, "one"), taskWithFiles(t, "two")
	before := openFiles(t)
	for range 3 {
		require.Equal(t, "ok", does(t, p, one, "keep", "TASK/secrets/token"))
		require.Empty(t, does(t, p, two, "kept", ""), "another instance")
	}
	require.LessOrEqual(t, openFiles(t), before+2)
	require.Equal(t, "of two", does(t, p, two, "read", "TASK/local/file"))
}

// openFiles is how many files the process has open.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}
