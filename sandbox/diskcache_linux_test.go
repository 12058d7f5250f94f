package sandbox_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/sandbox"
)

// cacheEnv has TestOneCacheServesProcesses be one of its own processes.
const cacheEnv = "WASMNODE_TEST_CACHE"

// TestOneCacheServesProcesses has two of them fill one cache with the same modules at once:
// neither finds code that the other has only begun to write, or takes it for damaged.
func TestOneCacheServesProcesses(t *testing.T) {
	const modules = 60
	if dir := os.Getenv(cacheEnv); dir != "" {
		e, err := sandbox.Open(sandbox.Config{CacheDir: dir, Logger: hclog.New(&hclog.LoggerOptions{Output: os.Stderr})})
		require.NoError(t, err)
		for i := range modules {
			m, err := compileIn(t.Context(), e, run(0, modtest.I32Const(int32(i))).Bytes(), sandbox.Options{MemoryMaxBytes: megabyte})
			require.NoError(t, err)
			require.NoError(t, m.Close(t.Context()))
		}
		require.NoError(t, e.Close(t.Context()))
		return
	}
	dir := t.TempDir()
	var processes [2]*exec.Cmd
	var logs [2]bytes.Buffer
	for i := range processes {
		processes[i] = exec.Command(os.Args[0], "-test.run=^TestOneCacheServesProcesses$", "-test.v")
		processes[i].Env = append(os.Environ(), cacheEnv+"="+dir)
		processes[i].Stdout, processes[i].Stderr = &logs[i], &logs[i]
		require.NoError(t, processes[i].Start())
	}
	for i, p := range processes {
		require.NoError(t, p.Wait(), "%s", &logs[i])
		require.NotContains(t, logs[i].String(), "compil", fmt.Sprint("what process ", i, " says"))
	}
	left, err := filepath.Glob(filepath.Join(dir, "new-*"))
	require.NoError(t, err)
	require.Empty(t, left)
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, all, modules)
}
