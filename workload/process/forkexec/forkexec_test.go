package forkexec_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/workload/process/forkexec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func execute(c *forkexec.Calls, command string, args ...string) {
	c.Add(explain("command "+command), unix.SYS_EXECVE, c.Text(command), c.Texts(append([]string{command}, args...)), c.Texts([]string{"GREETING=hello"}))
}

func explain(what string) func(syscall.Errno) error {
	return func(e syscall.Errno) error { return fmt.Errorf("%s: %w", what, e) }
}

func explainNumber(e syscall.Errno) error { return fmt.Errorf("number %d", int(e)) }

// start starts a process on a thread that stays, which is the process's parent.
func start(t *testing.T, calls *forkexec.Calls) (*forkexec.Child, error) {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	child, err := forkexec.Fork(0, -1, calls)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { require.NoError(t, unix.Close(child.PIDFD)) })
	if err = child.Executed(); err != nil {
		require.Equal(t, 127, wait(t, child).ExitStatus())
	}
	return child, err
}

func wait(t *testing.T, child *forkexec.Child) (status unix.WaitStatus) {
	t.Helper()
	_, err := unix.Wait4(child.PID, &status, 0, nil)
	require.NoError(t, err)
	return status
}

// outputOf returns what a process writes, to whose calls one to execute something is added.
func outputOf(t *testing.T, calls *forkexec.Calls, command string, args ...string) string {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	for _, fd := range []uintptr{1, 2} {
		calls.Add(nil, unix.SYS_DUP3, w.Fd(), fd, 0)
	}
	execute(calls, command, args...)
	child, err := start(t, calls)
	require.NoError(t, w.Close())
	require.NoError(t, err)
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Zero(t, wait(t, child), string(text))
	return strings.TrimSpace(string(text))
}

func TestAProcessMakesItsCallsAndThenExecutesTheCommand(t *testing.T) {
	var calls forkexec.Calls
	dir := t.TempDir()
	calls.Add(nil, unix.SYS_SETSID)
	calls.Add(nil, unix.SYS_CHDIR, calls.Text(dir))
	calls.AddExpecting(uintptr(os.Getpid()), explain("parent"), unix.SYS_GETPPID)
	require.Equal(t, dir+" hello a  b", outputOf(t, &calls, "/bin/sh", "-c", `echo "$(pwd) $GREETING $1"`, "sh", "a  b"))
	own, err := os.Getwd()
	require.NoError(t, err)
	require.NotEqual(t, dir, own, "this process has made none")
}

func TestACallThatFailsIsExplainedAndTheRestIsNotMade(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made")
	for name, c := range map[string]struct {
		fail func(*forkexec.Calls)
		want error
		says string
	}{
		"a call":                          {func(c *forkexec.Calls) { c.Add(explain("directory"), unix.SYS_CHDIR, c.Text("/no/such")) }, unix.ENOENT, "directory: no such file or directory"},
		"a command":                       {func(c *forkexec.Calls) { execute(c, "/no/such") }, unix.ENOENT, "command /no/such: no such file or directory"},
		"a result above the expected one": {func(c *forkexec.Calls) { c.AddExpecting(0, explainNumber, unix.SYS_GETPID) }, nil, "number 0"},
		"a result below it":               {func(c *forkexec.Calls) { c.AddExpecting(1<<62, explainNumber, unix.SYS_GETPID) }, nil, "number 0"},
		"unexplained":                     {func(c *forkexec.Calls) { c.Add(nil, unix.SYS_CLOSE, ^uintptr(0)) }, unix.EBADF, "bad file descriptor"},
		"a text with a zero":              {func(c *forkexec.Calls) { execute(c, "/bin/true", "a\x00b") }, unix.EINVAL, `"a\x00b" has a zero byte`},
	} {
		for way, make := range map[string]func(*forkexec.Calls) error{
			"forked":      func(c *forkexec.Calls) error { _, err := start(t, c); return err },
			"this thread": (*forkexec.Calls).Make,
		} {
			t.Run(name+", "+way, func(t *testing.T) {
				var calls forkexec.Calls
				calls.Add(nil, unix.SYS_GETPID)
				c.fail(&calls)
				calls.Add(nil, unix.SYS_MKDIRAT, 0, calls.Text(made), 0o755)
				err := make(&calls)
				require.ErrorContains(t, err, c.says)
				if c.want != nil {
					require.ErrorIs(t, err, c.want)
				}
				require.NoDirExists(t, made)
				_, err = unix.Wait4(-1, nil, unix.WNOHANG, nil)
				require.ErrorIs(t, err, unix.ECHILD, "nothing of it is left")
			})
		}
	}
}

func TestAFileThatIsOpenedIsAtItsPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	place, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer place.Close()
	var calls forkexec.Calls
	calls.Add(nil, unix.SYS_OPENAT, 0, calls.Text(file), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	calls.Reopen(nil, int(place.Fd()))
	calls.Add(nil, unix.SYS_WRITE, place.Fd(), calls.Text("written"), 7)
	execute(&calls, "/bin/true")
	child, err := start(t, &calls)
	require.NoError(t, err)
	require.Zero(t, wait(t, child))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "written", string(text))
	n, err := place.Write([]byte("x"))
	require.Error(t, err, "%d bytes: this process has what it had, which is open for reading", n)
}

func TestAProcessThatHasMadeAllItsCallsEnds(t *testing.T) {
	var calls forkexec.Calls
	calls.Add(nil, unix.SYS_GETPID)
	child, err := start(t, &calls)
	require.NoError(t, err)
	require.Zero(t, wait(t, child))
}

func TestSignalsAreAsTheyAreForAnyProcess(t *testing.T) {
	var calls forkexec.Calls
	calls.Unblock()
	status := outputOf(t, &calls, "/bin/cat", "/proc/self/status")
	require.Regexp(t, `(?m)^SigBlk:\s+0+$`, status)
	require.Regexp(t, `(?m)^SigCgt:\s+0+$`, status)
	var blocked unix.Sigset_t
	require.NoError(t, unix.PthreadSigmask(unix.SIG_SETMASK, nil, &blocked))
	require.Zero(t, blocked, "of this thread too")
}

func TestAProcessThatIsKilledBeforeItsCommandIsNoError(t *testing.T) {
	var calls forkexec.Calls
	calls.Add(nil, unix.SYS_PPOLL, 0, 0, 0, 0, 8) // until a signal comes
	execute(&calls, "/bin/true")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	child, err := forkexec.Fork(0, -1, &calls)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(child.PIDFD)) }()
	runtime.GC() // for which all of this program's threads stop: none waits for the process
	require.NoError(t, unix.Kill(child.PID, unix.SIGKILL))
	require.NoError(t, child.Executed())
	require.Equal(t, unix.SIGKILL, wait(t, child).Signal())
}

// What has a program of its own handle signals would run in this one's memory.
func TestNoSignalIsHandledInTheNewProcess(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	var calls forkexec.Calls
	mask := forkexec.Keep(&calls, new(uint64))
	calls.Add(nil, unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, 0, mask, 8)
	calls.Add(nil, unix.SYS_WRITE, w.Fd(), mask, 8)
	calls.Add(nil, unix.SYS_SETSID)
	calls.Add(nil, unix.SYS_KILL, 0, uintptr(unix.SIGTERM))
	calls.Unblock()
	execute(&calls, "/bin/true")
	child, err := start(t, &calls)
	require.NoError(t, err)
	require.Equal(t, unix.SIGTERM, wait(t, child).Signal())
	var blocked uint64
	require.NoError(t, binary.Read(r, binary.NativeEndian, &blocked))
	require.Equal(t, ^uint64(0)&^(1<<(unix.SIGKILL-1)|1<<(unix.SIGSTOP-1)), blocked, "until it unblocks them")
}

// The other end of a pipe is told that it is closed, though a process was forked that has not executed
// its command.
func TestAProcessHoldsNothingOpenWhileItWaits(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	var calls forkexec.Calls
	calls.CloseFiles(nil)
	calls.Add(nil, unix.SYS_PPOLL, 0, 0, 0, 0, 8)
	calls.Add(explain("the last"), unix.SYS_CLOSE, ^uintptr(0))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	child, err := forkexec.Fork(0, -1, &calls)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	_, err = r.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, unix.Kill(child.PID, unix.SIGKILL))
	require.NoError(t, child.Executed())
	require.Equal(t, unix.SIGKILL, wait(t, child).Signal())
	require.NoError(t, unix.Close(child.PIDFD))
}

func TestFilesAreClosedButThoseToKeep(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	var open []int
	for range 6 {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY, 0) // which stays open in a command
		require.NoError(t, err)
		defer func() { require.NoError(t, unix.Close(fd)) }()
		open = append(open, fd)
	}
	for name, keep := range map[string][]int{
		"none": nil, "one": open[2:3], "two": {open[4], open[1]}, "neighbours": open[2:5], "the last": open[5:],
	} {
		t.Run(name, func(t *testing.T) {
			var calls forkexec.Calls
			for _, fd := range []uintptr{1, 2} {
				calls.Add(nil, unix.SYS_DUP3, w.Fd(), fd, 0)
			}
			calls.CloseFiles(nil, keep...)
			execute(&calls, "/bin/sh", "-c", "echo $(ls /proc/self/fd)")
			child, err := start(t, &calls)
			require.NoError(t, err)
			require.Zero(t, wait(t, child))
			text := make([]byte, 100)
			n, err := r.Read(text)
			require.NoError(t, err)
			want := []string{"0", "1", "2"}
			for _, fd := range slices.Sorted(slices.Values(keep)) {
				want = append(want, strconv.Itoa(fd))
			}
			var has []string
			for _, fd := range strings.Fields(string(text[:n])) {
				if number, err := strconv.Atoi(fd); err == nil && (number < 3 || slices.Contains(open, number)) {
					has = append(has, fd) // what is left is the directory that ls reads
				}
			}
			require.ElementsMatch(t, want, has)
		})
	}
}

func TestWhatFailsAfterFilesWereClosedIsReported(t *testing.T) {
	var calls forkexec.Calls
	calls.CloseFiles(nil)
	calls.Add(explain("the last"), unix.SYS_CHDIR, calls.Text("/no/such"))
	_, err := start(t, &calls)
	require.EqualError(t, err, "the last: no such file or directory")
}

// What the arguments point to is the list's.
func TestArgumentsStayWhereTheyAre(t *testing.T) {
	var calls forkexec.Calls
	execute(&calls, "/bin/sh", "-c", `[ "$GREETING" = hello ]`)
	garbage := make([][]byte, 0, 1000)
	for range 3 {
		runtime.GC()
		for range cap(garbage) {
			garbage = append(garbage[:0], make([]byte, 16), make([]byte, 32), make([]byte, 64))
		}
	}
	child, err := start(t, &calls)
	require.NoError(t, err)
	require.Zero(t, wait(t, child))
}

func TestAProcessWithoutCallsEnds(t *testing.T) {
	child, err := start(t, new(forkexec.Calls))
	require.NoError(t, err)
	require.Zero(t, wait(t, child))
	require.NoError(t, new(forkexec.Calls).Make())
}

// BenchmarkStart is beside the standard library's way to start the same.
func BenchmarkStart(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.Run("calls", func(b *testing.B) {
		for b.Loop() {
			var calls forkexec.Calls
			execute(&calls, "/bin/true")
			child, err := forkexec.Fork(0, -1, &calls)
			require.NoError(b, err)
			require.NoError(b, child.Executed())
			_, err = unix.Wait4(child.PID, nil, 0, nil)
			require.NoError(b, errors.Join(err, unix.Close(child.PIDFD)))
		}
	})
	b.Run("syscall", func(b *testing.B) {
		for b.Loop() {
			pid, err := syscall.ForkExec("/bin/true", []string{"/bin/true"}, &syscall.ProcAttr{Env: []string{"GREETING=hello"}})
			require.NoError(b, err)
			_, err = unix.Wait4(pid, nil, 0, nil)
			require.NoError(b, err)
		}
	})
}
