package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sandbox/scan"
	w "github.com/wasmnode/wasmnode/sandbox/wasmbin/wasmtest"
)

// heldAcross is a module whose function holds so many loaded values on the operand stack
// across so many ifs: the engine keeps a list of them for every block.
func heldAcross(values, ifs int) []byte {
	return w.Build(w.Program{Pages: 1, Funcs: []w.Func{{
		Params: "\x7f", Results: "\x7f", Export: "f",
		Code: w.Repeat("\x20\x00\x28\x02\x00", values) + w.Repeat("\x20\x00\x04\x40\x0b", ifs) + w.Repeat("\x6a", values-1),
	}}})
}

// slowToCompile takes the engine minutes, and little memory: locals among branches.
func slowToCompile() []byte {
	var reads strings.Builder
	for i := range 3000 {
		reads.WriteString("\x20" + w.U32(i) + "\x1a")
	}
	return w.Build(w.Program{Pages: 1, Funcs: []w.Func{{
		Params: "\x7f", Export: "f", Locals: []string{w.U32(4999) + "\x7f"},
		Code: "\x02\x40" + w.Repeat("\x20\x00\x0d\x00", 3000) + "\x0b" + reads.String(),
	}}})
}

// scanned reads a module that the estimate would refuse.
func scanned(t testing.TB, wasm []byte) *scan.Module {
	t.Helper()
	limits := scan.DefaultLimits()
	limits.CompileWork, limits.CompileBytes = 1<<60, 1<<60
	m, err := scan.Read(scan.NewSource(wasm), limits)
	require.NoError(t, err)
	return m
}

func TestTheScanRefusesValuesHeldAcrossBlocks(t *testing.T) {
	for _, c := range []struct{ values, ifs int }{{12_000, 9_000}, {6_000, 3_000}} {
		wasm := heldAcross(c.values, c.ifs)
		t.Logf("%d bytes", len(wasm))
		_, err := scan.Read(scan.NewSource(wasm), scan.DefaultLimits())
		require.ErrorIs(t, err, scan.ErrLimit)
		require.ErrorContains(t, err, "compiling")
	}
}

func TestAModuleThatExhaustsTheCompilerIsRefusedAndNotTriedAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("fills 256 MB")
	}
	dir := t.TempDir()
	e := open(t, dir)
	hostile := scanned(t, heldAcross(12_000, 9_000))
	_, err := e.Compile(t.Context(), hostile, sandbox.Options{MemoryMaxBytes: megabyte})
	require.ErrorIs(t, err, sandbox.ErrCompileLimit)
	var refused *sandbox.StageError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, sandbox.StageCompile, refused.Stage)
	// The race detector makes the compiler slow, so that its time can end before its memory.
	require.Regexp(t, "^compile: the module is too costly to compile: it takes more than (256 MB of memory|60 s of a processor)$", err.Error())
	_, err = e.Compile(t.Context(), hostile, sandbox.Options{MemoryMaxBytes: megabyte})
	require.ErrorIs(t, err, sandbox.ErrCompileLimit)
	require.ErrorContains(t, err, "it is tried again in ")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)

	stack := []uint64{10}
	require.NoError(t, call(t, t.Context(), compile(t, e, fib()), stack))
	require.EqualValues(t, 55, stack[0])
}

// The compiler is killed when nobody waits for it any more, and until then it has nothing
// of this process's but its pipes.
func TestTheContextEndsACompile(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	go func() {
		_, err := e.Compile(ctx, scanned(t, slowToCompile()), sandbox.Options{MemoryMaxBytes: megabyte})
		ended <- err
	}()
	pid := waitForCompiler(t, os.Getpid())
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	requireText(t, proc+"/oom_score_adj", "1000\n") // the last thing that it does to itself
	requireText(t, proc+"/environ", "GOGC=400\x00")
	limits, err := os.ReadFile(proc + "/limits")
	require.NoError(t, err)
	require.Regexp(t, `Max cpu time +60 +62 `, string(limits))
	require.Regexp(t, `Max core file size +0 +0 `, string(limits))
	fds, err := os.ReadDir(proc + "/fd")
	require.NoError(t, err)
	for _, fd := range fds {
		to, err := os.Readlink(filepath.Join(proc, "fd", fd.Name()))
		require.NoError(t, err)
		require.Regexp(t, `^(pipe:|anon_inode:)`, to, "descriptor %s", fd.Name())
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.NoDirExists(t, proc)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestTheCompilerEndsWithItsParent kills a process of these tests that compiles.
func TestTheCompilerEndsWithItsParent(t *testing.T) {
	if dir := os.Getenv("COMPILE_UNTIL_KILLED"); dir != "" {
		_, err := open(t, dir).Compile(t.Context(), scanned(t, slowToCompile()), sandbox.Options{MemoryMaxBytes: megabyte})
		require.NoError(t, err)
		return
	}
	dir := t.TempDir()
	parent := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	parent.Env = append(os.Environ(), "COMPILE_UNTIL_KILLED="+dir)
	require.NoError(t, parent.Start())
	pid := waitForCompiler(t, parent.Process.Pid)
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	require.Eventually(t, func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		return os.IsNotExist(err) || ended(pid)
	}, time.Minute, time.Millisecond)

	// What it left is removed when it is old enough to be nobody's.
	open(t, dir)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, left, 1)
	old := time.Now().Add(-2 * time.Hour)
	require.NoError(t, os.Chtimes(left[0], old, old))
	compile(t, open(t, dir), fib())
	require.NoDirExists(t, left[0])
}

func TestAFullDiskDoesNotLeaveAModuleUncompiled(t *testing.T) {
	dir, logs := t.TempDir(), &strings.Builder{}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4k"); err != nil {
		t.Skipf("a small disk: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	e, err := sandbox.Open(sandbox.Config{CacheDir: dir, Logger: hclog.New(&hclog.LoggerOptions{Output: logs})})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "full"), make([]byte, 4096), 0o600))
	stack := []uint64{10}
	require.NoError(t, call(t, t.Context(), compile(t, e, fib()), stack))
	require.EqualValues(t, 55, stack[0])
	require.Contains(t, logs.String(), "compiled code could not be kept")
}

func TestACacheOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chown(dir, 65534, 65534))
	_, err := sandbox.Open(sandbox.Config{CacheDir: dir})
	require.ErrorContains(t, err, "belongs to the user 65534")
	require.NoError(t, os.Chown(dir, 0, 0))
}

// waitForCompiler returns the process that another has started to compile, once it has
// bounded itself.
func waitForCompiler(t *testing.T, parent int) (pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		processes, err := filepath.Glob("/proc/[0-9]*")
		require.NoError(t, err)
		for _, p := range processes {
			stat, _ := os.ReadFile(p + "/stat")
			command, _ := os.ReadFile(p + "/cmdline")
			adjusted, _ := os.ReadFile(p + "/oom_score_adj")
			if strings.Contains(string(stat), fmt.Sprintf(") S %d ", parent)) || strings.Contains(string(stat), fmt.Sprintf(") R %d ", parent)) {
				if strings.HasPrefix(string(command), "wasmnode: compiling\x00") && string(adjusted) == "1000\n" {
					pid, err = strconv.Atoi(filepath.Base(p))
					require.NoError(t, err)
					return true
				}
			}
		}
		return false
	}, time.Minute, time.Millisecond)
	return pid
}

// ended reports whether a process is one that nobody has waited for.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func requireText(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}
