package sandbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/sandbox"
	w "github.com/wasmnode/wasmnode/sandbox/wasmbin/wasmtest"
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

// mapped counts the files of code that this process has mapped to be run.
func mapped(t *testing.T, dir string) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return len(regexp.MustCompile(`(?m) r-xp .*`+regexp.QuoteMeta(dir)+`/.*/code\.text$`).FindAll(maps, -1))
}

// large has code that is worth a file of its own.
func large() []byte {
	program := w.Program{Pages: 1}
	for i := range 400 {
		program.Funcs = append(program.Funcs, w.Func{Params: "\x7f", Results: "\x7f", Export: fmt.Sprint("f", i),
			Code: "\x20\x00" + w.Repeat("\x20\x00\x28\x02\x00\x6a", 20) + "\x41" + w.U32(i%60) + "\x6a"})
	}
	return w.Build(program)
}

// TestCodeThatIsOnTheDiskTakesNoMemoryOfItsOwn has it mapped from a file that is compared with
// what was verified; whatever is wrong with that file, the code is what it was.
func TestCodeThatIsOnTheDiskTakesNoMemoryOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	works := func() {
		t.Helper()
		e := open(t, dir)
		m, err := compileIn(t.Context(), e, large(), sandbox.Options{MemoryMaxBytes: megabyte})
		require.NoError(t, err)
		require.Equal(t, 1, mapped(t, dir), "the engine tells where its code is")
		require.True(t, m.Kept())
		i, err := m.Instantiate(t.Context(), wazero.NewModuleConfig().WithName(""))
		require.NoError(t, err)
		for _, n := range []int{0, 59, 399} {
			stack := []uint64{100}
			require.NoError(t, i.Call(t.Context(), i.ExportedFunction(fmt.Sprint("f", n)), stack))
			require.EqualValues(t, 100+n%60, stack[0])
		}
		require.NoError(t, m.Close(t.Context()))
		require.NoError(t, e.Close(t.Context()))
		require.Eventually(t, func() bool { runtime.GC(); return mapped(t, dir) == 0 }, time.Minute, time.Millisecond)
	}
	works()
	works() // with the file that is there
	files, err := filepath.Glob(filepath.Join(dir, "*", "code.text"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	code, err := os.ReadFile(files[0])
	require.NoError(t, err)
	for name, damage := range map[string]func() error{
		"another byte": func() error {
			return os.WriteFile(files[0], append(bytes.Clone(code[:len(code)-1]), code[len(code)-1]^1), 0o600)
		},
		"cut":        func() error { return os.Truncate(files[0], 4096) },
		"longer":     func() error { return os.Truncate(files[0], int64(len(code))+1) },
		"gone":       func() error { return os.Remove(files[0]) },
		"a link":     func() error { return errors.Join(os.Remove(files[0]), os.Symlink("/etc/passwd", files[0])) },
		"others' to": func() error { return os.Chmod(files[0], 0o666) },
	} {
		t.Log(name)
		require.NoError(t, damage())
		works()
		again, err := os.ReadFile(files[0])
		require.NoError(t, err)
		require.True(t, bytes.Equal(code, again), "it is written again")
	}
	left, err := filepath.Glob(filepath.Join(dir, "new-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
