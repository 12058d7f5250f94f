package process_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// waiting is a script that says that it runs, and does nothing.
const waiting = "echo ready; while :; do sleep 1000; done"

// ran is what a command left.
type ran struct {
	exit           *structs.ExitResult
	err            error
	stdout, stderr string
}

// exec runs a script in a workload to its end.
func (w *world) exec(id string, stdin io.Reader, script string) ran {
	var stdout, stderr bytes.Buffer
	exit, err := w.s.Exec(w.context(), id, &workload.ExecSpec{
		Command: "sh", Args: []string{"-c", script, w.token}, Stdin: stdin, Stdout: &stdout, Stderr: &stderr,
	})
	return ran{exit, err, stdout.String(), stderr.String()}
}

func TestACommandRunsAsItsWorkloadDoes(t *testing.T) {
	w := newWorld(t)
	spec := w.script(waiting)
	spec.Env["GREETING"] = "hello"
	require.NoError(t, w.s.Start(w.context(), spec))
	w.ready(spec)
	r := w.exec(spec.ID, strings.NewReader("from stdin"), `echo "$GREETING, $(pwd), $(cat)"; echo oops >&2; exit 7`)
	require.NoError(t, r.err)
	require.Equal(t, &structs.ExitResult{ExitCode: 7}, r.exit)
	require.Equal(t, "hello, "+spec.Process.Dir+", from stdin\n", r.stdout)
	require.Equal(t, "oops\n", r.stderr)
	r = w.exec(spec.ID, nil, `cat; cat /proc/self/environ | tr '\0' '\n' | sort; grep NoNewPrivs /proc/self/status; kill -9 $$`)
	require.NoError(t, r.err)
	require.Equal(t, &structs.ExitResult{ExitCode: 137, Signal: 9}, r.exit)
	require.Equal(t, "GREETING=hello\nPATH=/usr/bin:/bin\nNoNewPrivs:\t1\n", strings.Replace(r.stdout, "PWD="+spec.Process.Dir+"\n", "", 1))
	require.Equal(t, "ready\n", w.said(spec), "its log is its own")
}

func TestACommandIsTheWorkloadsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of others")
	}
	nobody, err := user.Lookup("nobody")
	require.NoError(t, err)
	w := newWorld(t)
	spec := w.script(waiting)
	spec.Process.User, spec.Process.Dir = "nobody", "/"
	require.NoError(t, w.s.Start(w.context(), spec))
	require.Equal(t, nobody.Uid+"\n", w.exec(spec.ID, nil, "id -u").stdout)
	r := w.terminal(spec.ID, workload.Size{}, `echo again >"$(tty)"; ls -l "$(tty)" | cut -d' ' -f3`)
	require.Equal(t, "again\r\nnobody\r\n", r.stdout)
}

func TestNothingOfALargeOutputIsLost(t *testing.T) {
	const size = 10 << 20
	w := newWorld(t)
	spec := w.start(waiting)
	w.ready(spec)
	slow := &countingWriter{pause: outputTimeout}
	exit, err := w.s.Exec(w.context(), spec.ID, &workload.ExecSpec{
		Command: "head", Args: []string{"-c", strconv.Itoa(size), "/dev/zero"}, Stdout: slow,
	})
	require.NoError(t, err)
	require.True(t, exit.Successful())
	require.Equal(t, size, slow.count, "also when its reader is slow in the end")
	r := w.exec(spec.ID, bytes.NewReader(make([]byte, size)), "wc -c")
	require.NoError(t, r.err)
	require.Equal(t, strconv.Itoa(size)+"\n", r.stdout)
}

// outputTimeout is longer than a command's output is waited for.
const outputTimeout = 1500 * time.Millisecond

// countingWriter counts, and is slow with the last bytes.
type countingWriter struct {
	count int
	pause time.Duration
}

func (c *countingWriter) Write(b []byte) (int, error) {
	if before := c.count; before < 10<<20-64<<10 && before+len(b) >= 10<<20-64<<10 {
		time.Sleep(c.pause)
	}
	c.count += len(b)
	return len(b), nil
}

// terminal runs a script on a terminal.
func (w *world) terminal(id string, size workload.Size, script string) ran {
	w.t.Helper()
	var stdout bytes.Buffer
	exit, err := w.s.Exec(w.context(), id, &workload.ExecSpec{Command: "sh", Args: []string{"-c", script, w.token}, TTY: true, Size: size, Stdout: &stdout})
	require.NoError(w.t, err)
	return ran{exit: exit, stdout: stdout.String()}
}

func TestACommandCanHaveATerminal(t *testing.T) {
	w := newWorld(t)
	spec := w.start(waiting)
	r := w.terminal(spec.ID, workload.Size{Rows: 33, Columns: 101}, "test -t 0 && test -t 1 && test -t 2 && tty && stty size && echo $TERM && echo x >/dev/tty && exit 3")
	require.Equal(t, 3, r.exit.ExitCode)
	require.Regexp(t, `^/dev/pts/\d+\r\n33 101\r\nxterm\r\nx\r\n$`, r.stdout)
	require.Equal(t, "24 80\r\n", w.terminal(spec.ID, workload.Size{}, "stty size").stdout)
}

func TestATerminalCanBeTypedOnAndResized(t *testing.T) {
	w := newWorld(t)
	spec := w.start(waiting)
	typed, keyboard := io.Pipe()
	screen := newScreen()
	sizes := make(chan workload.Size)
	done := make(chan error, 1)
	go func() {
		_, err := w.s.Exec(w.context(), spec.ID, &workload.ExecSpec{
			Command: "sh", Args: []string{"-c", `trap 'stty size' WINCH; echo ready; until [ "$(stty size)" = "50 120" ]; do sleep 0.05; done
				trap - WINCH; while read line; do echo "got $line"; done; echo end`},
			TTY: true, Stdin: typed, Stdout: screen, Resize: sizes,
		})
		done <- err
	}()
	screen.await(t, "ready")
	sizes <- workload.Size{Rows: 50, Columns: 120}
	_, err := io.WriteString(keyboard, "one\n")
	require.NoError(t, err)
	screen.await(t, "50 120")
	screen.await(t, "got one")
	_, err = io.WriteString(keyboard, "no newline")
	require.NoError(t, err)
	require.NoError(t, keyboard.Close())
	screen.await(t, "end")
	require.NoError(t, <-done)
}

// screen collects what is written, for those who wait for it.
type screen struct {
	mu      sync.Mutex
	text    strings.Builder
	written wake.Signal
}

func newScreen() *screen { return &screen{written: wake.New()} }

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written.Set()
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until a text is there.
func (s *screen) await(t testing.TB, text string) {
	t.Helper()
	deadline := time.After(testTimeout)
	for !strings.Contains(s.String(), text) {
		select {
		case <-s.written.C():
		case <-deadline:
			t.Fatalf("%q is not in %q", text, s.String())
		}
	}
}

// isAlone waits until the workload's own shell is all that runs: it forks now and then.
func (w *world) isAlone() {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.left() == 1 }, testTimeout, time.Millisecond)
}

// processTree is a script of several processes, one of which leaves its session.
const processTree = `setsid sh -c 'while :; do sleep 1000; done' "$0" & sh -c 'while :; do sleep 1000; done' "$0" & echo ready; while :; do sleep 1000; done`

func TestACommandEndsWithItsCallersContext(t *testing.T) {
	w := newWorld(t)
	spec := w.start(waiting)
	w.ready(spec)
	ctx, cancel := context.WithCancel(w.context())
	defer cancel()
	out := newScreen()
	done := make(chan error, 1)
	go func() {
		_, err := w.s.Exec(ctx, spec.ID, &workload.ExecSpec{Command: "sh", Args: []string{"-c", processTree, w.token}, Stdout: out})
		done <- err
	}()
	out.await(t, "ready")
	require.Greater(t, w.left(), 1)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	w.isAlone()
}

func TestProcessesThatACommandLeavesBehindAreKilled(t *testing.T) {
	w := newWorld(t)
	spec := w.start(waiting)
	w.ready(spec)
	r := w.exec(spec.ID, nil, `setsid sh -c 'while :; do sleep 1000; done' "$0" & echo started`)
	require.NoError(t, r.err)
	require.Equal(t, "started\n", r.stdout)
	w.isAlone()
}

func TestCommandsEndWithTheirWorkload(t *testing.T) {
	for _, cgroups := range []bool{true, false} {
		t.Run("cgroups "+strconv.FormatBool(cgroups), func(t *testing.T) {
			w := newWorld(t)
			if !cgroups {
				require.NoError(t, w.s.WithoutCgroup())
			}
			spec := w.start(waiting)
			out := newScreen()
			done := make(chan ran, 1)
			go func() {
				exit, err := w.s.Exec(w.context(), spec.ID, &workload.ExecSpec{Command: "sh", Args: []string{"-c", waiting, w.token}, Stdout: out})
				done <- ran{exit: exit, err: err}
			}()
			out.await(t, "ready")
			require.NoError(t, w.s.Stop(w.context(), spec.ID, "SIGKILL", 0))
			require.Zero(t, w.left())
			r := <-done
			require.NoError(t, r.err)
			require.Equal(t, &structs.ExitResult{ExitCode: 137, Signal: 9}, r.exit)
			require.Equal(t, abi.FailedPrecondition, abi.CodeOf(w.exec(spec.ID, nil, "true").err))
		})
	}
}

func TestACommandWhoseOutputCannotBeWrittenEnds(t *testing.T) {
	w := newWorld(t)
	spec := w.start(waiting)
	w.ready(spec)
	gone := errors.New("gone")
	_, err := w.s.Exec(w.context(), spec.ID, &workload.ExecSpec{
		Command: "sh", Args: []string{"-c", processTree, w.token}, Stdout: writerFunc(func([]byte) (int, error) { return 0, gone }),
	})
	require.ErrorIs(t, err, gone)
	w.isAlone()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestACommandThatCannotRunIsRefusedWithTheReason(t *testing.T) {
	w := newWorld(t)
	spec := w.start(waiting)
	for _, c := range []struct {
		id, command string
		code        abi.Code
		says        string
	}{
		{"nobody", "true", abi.NotFound, "workload nobody does not exist"},
		{spec.ID, "", abi.InvalidArgument, "no command"},
		{spec.ID, "no-such-command", abi.NotFound, "is not on the task's PATH, /usr/bin:/bin"},
		{spec.ID, "/no/such", abi.NotFound, "command /no/such: no such file or directory"},
		{spec.ID, "/etc/passwd", abi.PermissionDenied, "permission denied"},
	} {
		_, err := w.s.Exec(w.context(), c.id, &workload.ExecSpec{Command: c.command})
		require.Equal(t, c.code, abi.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, c.says)
	}
}

func TestManyCommandsAtOnceLeaveNothingOpen(t *testing.T) {
	w := newWorld(t)
	spec := w.start(waiting)
	w.ready(spec)
	require.NoError(t, w.exec(spec.ID, nil, "true").err)
	before := openFiles(t)
	var running sync.WaitGroup
	for i := range 20 {
		running.Go(func() {
			text := strings.Repeat(strconv.Itoa(i), 100_000)
			var stdout bytes.Buffer
			exit, err := w.s.Exec(w.context(), spec.ID, &workload.ExecSpec{
				Command: "cat", TTY: i%4 == 0, Stdin: strings.NewReader(text), Stdout: &stdout,
			})
			if i%4 == 0 {
				return // a terminal takes no line of that length
			}
			if err != nil || !exit.Successful() || stdout.String() != text {
				t.Errorf("%d: %v %v, %d bytes", i, exit, err, stdout.Len())
			}
		})
	}
	running.Wait()
	require.Eventually(t, func() bool { return openFiles(t) <= before }, testTimeout, time.Millisecond)
}

func openFiles(t testing.TB) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(open)
}
