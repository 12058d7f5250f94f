package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/wasmnode/wasmnode/internal/wake"
)

// execNode is a node with a job of processes in which commands can run.
type execNode struct {
	*node
	site  *site
	alloc string
	token string // in the command line of each process that a test leaves to run
}

const waitingTask = `
    task %q {
      driver = "raw_exec"
      env { GREETING = "hello" }
      config {
        command = "/bin/sh"
        args    = ["-c", "while :; do sleep 1000; done", %q]
      }
      resources {
        cpu    = 10
        memory = 32
      }
    }`

// startExecNode starts a node with one job, whose group has these tasks.
func startExecNode(t *testing.T, tasks ...string) *execNode {
	t.Helper()
	s := newSite(t, "raw_exec")
	s.grant(t, `plugin "raw_exec" { grant { process { commands = ["*"] } } }`)
	n := &execNode{node: s.start(t), site: s, token: "token-" + filepath.Base(filepath.Dir(s.data))}
	var text strings.Builder
	for _, name := range tasks {
		fmt.Fprintf(&text, waitingTask, name, n.token)
	}
	file := write(t, filepath.Join(t.TempDir(), "job.nomad.hcl"), fmt.Sprintf("job \"shells\" {\n  group \"g\" {\n%s\n%s\n  }\n}\n", healthyAtOnce, &text))
	n.out(t, "job", "run", file)
	n.alloc = n.awaitTasks(t, "shells", tasks...).ID
	return n
}

// awaitTasks waits until all these tasks of a job's one allocation run: the allocation is
// said to run when one of them does.
func (n *node) awaitTasks(t *testing.T, job string, tasks ...string) *nomad.AllocationListStub {
	t.Helper()
	return n.awaitAlloc(t, job, func(a *nomad.AllocationListStub) bool {
		return !slices.ContainsFunc(tasks, func(name string) bool {
			return a.TaskStates[name] == nil || a.TaskStates[name].State != "running"
		})
	})
}

func TestACommandRunsInATask(t *testing.T) {
	n := startExecNode(t, "web")
	r := n.run(t, "alloc", "exec", n.alloc, "sh", "-c", `echo "$GREETING, $NOMAD_TASK_NAME"; echo oops >&2; exit 7`)
	require.Equal(t, result{7, "hello, web\n", "oops\n"}, r)
	require.Equal(t, result{137, "", ""}, n.run(t, "alloc", "exec", n.alloc, "sh", "-c", "kill -9 $$"), "as shells have it for a signal")
	r = n.run(t, "alloc", "exec", "-task", "web", n.alloc, "--", "ls", "-h", "-d", "/")
	require.Equal(t, result{0, "/\n", ""}, r)

	t.Run("standard input is passed on to its end", func(t *testing.T) {
		in := strings.Repeat("0123456789abcdef", 1<<16)
		cmd := n.command("alloc", "exec", n.alloc, "cat")
		cmd.Stdin = strings.NewReader(in)
		r := execute(t, cmd)
		require.Equal(t, 0, r.code, r.stderr)
		require.True(t, in == r.stdout, "%d bytes of %d", len(r.stdout), len(in))
		cmd = n.command("alloc", "exec", "-i=false", n.alloc, "cat")
		cmd.Stdin = strings.NewReader(in)
		require.Equal(t, result{}, execute(t, cmd), "unless it is not wanted")
	})

	t.Run("nothing of a large output is lost", func(t *testing.T) {
		const size = 10 << 20
		r := n.run(t, "alloc", "exec", n.alloc, "head", "-c", strconv.Itoa(size), "/dev/zero")
		require.Equal(t, 0, r.code, r.stderr)
		require.Len(t, r.stdout, size)
		// The command ends while there is input on its way.
		cmd := n.command("alloc", "exec", n.alloc, "sh", "-c", "exec 0<&-; seq 100000")
		cmd.Stdin = zeros{}
		r = execute(t, cmd)
		require.Equal(t, 0, r.code, r.stderr)
		require.True(t, strings.HasSuffix(r.stdout, "\n99999\n100000\n"), "%d bytes", len(r.stdout))
	})

	t.Run("what cannot be run says why", func(t *testing.T) {
		for _, c := range []struct {
			args []string
			says string
		}{
			{[]string{n.alloc, "no-such-command"}, "command no-such-command is not on the task's PATH"},
			{[]string{n.alloc, "/no/such"}, "command /no/such: no such file or directory"},
			{[]string{"-task", "db", n.alloc, "true"}, `has no task "db", but web`},
			{[]string{"00000000", "true"}, `no allocation begins with "00000000"`},
			{[]string{n.alloc}, "alloc exec takes 2 to"},
			{[]string{"-e", "ab", n.alloc, "true"}, `-e "ab" is neither one character nor "none"`},
			{[]string{"-t", "-i=false", n.alloc, "true"}, "a terminal (-t) needs standard input (-i)"},
		} {
			r := n.run(t, append([]string{"alloc", "exec"}, c.args...)...)
			require.Equal(t, 1, r.code)
			require.Contains(t, r.stderr, c.says)
			require.Equal(t, 1, strings.Count(r.stderr, "\n"), "one line: %s", r.stderr)
		}
	})

	t.Run("many at once", func(t *testing.T) {
		var running sync.WaitGroup
		for i := range 20 {
			running.Go(func() {
				cmd := n.command("alloc", "exec", n.alloc, "sh", "-c", "cat; exit $0", strconv.Itoa(i))
				cmd.Stdin = strings.NewReader("hello")
				out, _ := cmd.Output()
				if string(out) != "hello" || cmd.ProcessState.ExitCode() != i {
					t.Errorf("%d: %q, exit code %d", i, out, cmd.ProcessState.ExitCode())
				}
			})
		}
		running.Wait()
	})

	n.out(t, "job", "stop", "shells")
	n.await(t, "shells", "complete")
	r = n.run(t, "alloc", "exec", n.alloc, "true")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "not running")
}

// zeros is an input without an end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func TestATaskOfSeveralIsToBeNamed(t *testing.T) {
	n := startExecNode(t, "web", "db")
	r := n.run(t, "alloc", "exec", n.alloc, "true")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "has several tasks: name one of db, web with -task")
	r = n.run(t, "alloc", "exec", "-task=db", n.alloc, "sh", "-c", "echo $NOMAD_TASK_NAME")
	require.Equal(t, result{0, "db\n", ""}, r)
}

func TestACommandEndsWhenItsClientDisconnects(t *testing.T) {
	n := startExecNode(t, "web")
	const before = 1 // the task's shell, and for a moment what is to become its sleep
	require.Eventually(t, func() bool { return withToken(t, n.token) == before }, testTimeout, tick)
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		cmd, out := n.execForest(t)
		require.Greater(t, withToken(t, n.token), before+1) // the command line of ours has it too
		require.NoError(t, cmd.Process.Signal(sig))
		_ = cmd.Wait()
		_ = out.Close()
		require.Eventually(t, func() bool { return withToken(t, n.token) == before }, testTimeout, tick, "after %s", sig)
	}
	// Also one that does not read what is sent to it.
	cmd := n.command("alloc", "exec", n.alloc, "sh", "-c", "while :; do sleep 1000; done", n.token)
	cmd.Stdin = zeros{}
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return withToken(t, n.token) == before+2 }, testTimeout, tick)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool { return withToken(t, n.token) == before }, testTimeout, tick)
}

// execForest begins a command of several processes, one of which leaves its session.
func (n *execNode) execForest(t *testing.T) (*exec.Cmd, io.Closer) {
	t.Helper()
	cmd := n.command("alloc", "exec", "-i=false", n.alloc, "sh", "-c",
		`setsid sh -c 'while :; do sleep 1000; done' "$0" & echo ready; while :; do sleep 1000; done`, n.token)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line := make([]byte, 6)
	_, err = io.ReadFull(out, line)
	require.NoError(t, err)
	require.Equal(t, "ready\n", string(line))
	return cmd, out
}

func TestACommandEndsWithItsTaskAndItsSupervisor(t *testing.T) {
	n := startExecNode(t, "web")
	for _, end := range []struct {
		how  string
		end  func()
		code int
	}{
		{"restart", func() { n.out(t, "alloc", "restart", n.alloc) }, 137},
		{"kill the supervisor", func() { require.True(t, n.site.killSupervisor(t)) }, 1},
	} {
		cmd, _ := n.execForest(t)
		end.end()
		_ = cmd.Wait()
		require.Equal(t, end.code, cmd.ProcessState.ExitCode(), end.how)
		require.Eventually(t, func() bool { return n.run(t, "alloc", "exec", n.alloc, "true").code == 0 }, testTimeout, tick)
	}
}

func TestACommandCanHaveTheTerminalOfItsUser(t *testing.T) {
	n := startExecNode(t, "web")
	tt := newTestTerminal(t)
	before, err := term.GetState(int(tt.theirs.Fd()))
	require.NoError(t, err)
	cmd := n.command("alloc", "exec", n.alloc, "sh", "-c",
		`trap 'stty size' WINCH; tty; stty size; echo ready; until [ "$(stty size)" = "50 120" ]; do sleep 0.05; done
		trap - WINCH; echo resized; while read line; do echo "got $line"; done; exit 3`)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tt.theirs, tt.theirs, tt.theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	tt.await(t, `/dev/pts/\d+\r\n33 101\r\nready`)
	tt.resize(t, 50, 120)
	tt.await(t, `50 120\r\nresized`)
	tt.enter(t, "hello\r")
	tt.await(t, `got hello`)
	tt.enter(t, "\x04")
	require.Error(t, cmd.Wait())
	require.Equal(t, 3, cmd.ProcessState.ExitCode())
	after, err := term.GetState(int(tt.theirs.Fd()))
	require.NoError(t, err)
	require.Equal(t, before, after, "the terminal is as it was")

	cmd = n.command("alloc", "exec", n.alloc, "cat")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tt.theirs, tt.theirs, tt.theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	tt.enter(t, "typed\r")
	tt.await(t, `typed\r\ntyped\r\n`)
	tt.enter(t, "~.")
	require.NoError(t, cmd.Wait())
	after, err = term.GetState(int(tt.theirs.Fd()))
	require.NoError(t, err)
	require.Equal(t, before, after)

	cmd = n.command("alloc", "exec", "-t", n.alloc, "stty", "size")
	keyboard, typist, err := os.Pipe() // nobody types: input and sizes are sent in any order
	require.NoError(t, err)
	cmd.Stdin = keyboard
	require.Equal(t, result{0, "24 80\r\n", ""}, execute(t, cmd), "one that was asked for")
	require.NoError(t, errors.Join(keyboard.Close(), typist.Close()))
}

func TestACommandInAnIsolatedTaskSeesWhatTheTaskSees(t *testing.T) {
	s := newSite(t, "exec", "wasi")
	s.grant(t, `
plugin "exec" {
  grant {
    process {
      commands  = ["*"]
      users     = ["nobody"]
      isolation = "full"
    }
  }
}`)
	n := &execNode{node: s.start(t), site: s}
	n.out(t, "job", "run", write(t, filepath.Join(t.TempDir(), "job.nomad.hcl"), `job "isolated" {
  group "g" {
    `+healthyAtOnce+`
    task "shell" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo hello >/local/greeting; while :; do sleep 1000; done"]
      }
      resources {
        cpu    = 10
        memory = 32
      }
    }
    task "program" {
      driver = "wasi"
      config {
        module = "`+s.program(t, "sleep")+`"
        args   = ["1h"]
      }
    }
  }
}`))
	alloc := n.awaitTasks(t, "isolated", "shell", "program").ID
	r := n.run(t, "alloc", "exec", "-task=shell", alloc, "sh", "-c",
		"until [ -s /local/greeting ]; do sleep 0.05; done; cat /local/greeting; id -un; ls -d /root")
	require.Equal(t, 2, r.code, r.stderr)
	require.Equal(t, "hello\nnobody\n", r.stdout)
	require.Equal(t, result{0, "/dev/pts/0\r\n", ""}, n.run(t, "alloc", "exec", "-t", "-task=shell", alloc, "tty"))
	require.Eventually(t, func() bool { return strings.Contains(n.out(t, "alloc", "logs", alloc, "program"), "ready") }, testTimeout, tick)
	r = n.run(t, "alloc", "exec", "-task=program", alloc, "sh")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "sh: a WASI program has no other programs: only ")
	require.Equal(t, result{0, "ready\ndone\n", ""}, n.run(t, "alloc", "exec", "-task=program", alloc, "sleep", "1ms"))
}

// testTerminal is a terminal with somebody in front of it.
type testTerminal struct {
	ours, theirs *os.File
	shown        *transcript
}

func newTestTerminal(t *testing.T) *testTerminal {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	var number int
	raw, err := ours.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		if err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}))
	require.NoError(t, err)
	fd, err := unix.Open(fmt.Sprintf("/dev/pts/%d", number), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	tt := &testTerminal{ours, os.NewFile(uintptr(fd), "terminal"), &transcript{grown: wake.New()}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(tt.shown, ours) // it ends when it is closed
	}()
	t.Cleanup(func() {
		_ = tt.theirs.Close()
		_ = ours.Close()
		<-done
	})
	tt.resize(t, 33, 101)
	return tt
}

func (tt *testTerminal) resize(t *testing.T, rows, columns uint16) {
	t.Helper()
	require.NoError(t, unix.IoctlSetWinsize(int(tt.theirs.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
}

func (tt *testTerminal) enter(t *testing.T, keys string) {
	t.Helper()
	_, err := tt.ours.WriteString(keys)
	require.NoError(t, err)
}

func (tt *testTerminal) await(t *testing.T, pattern string) {
	t.Helper()
	tt.shown.await(t, regexp.MustCompile(pattern), nil)
}

// command is a command of this node that was not started yet.
func (n *node) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "NOMAD_ADDR=http://"+n.address)
	return cmd
}

// withToken counts the processes that have a token in their command line.
func withToken(t *testing.T, token string) int {
	t.Helper()
	all, err := procfs.AllProcs()
	require.NoError(t, err)
	count := 0
	for _, p := range all {
		if line, err := p.CmdLine(); err == nil && strings.Contains(strings.Join(line, " "), token) {
			count++
		}
	}
	return count
}

func TestTheEscapeCharacterEndsASessionAtTheBeginningOfALine(t *testing.T) {
	for _, c := range []struct {
		typed, read string
		ends        bool
	}{
		{"~.", "", true},
		{"a\n~.b", "a\n", true},
		{"a\r~.", "a\r", true},
		{"a~.\n", "a~.\n", false},
		{"~~.\n", "~.\n", false},
		{"~x\n~~\n~", "~x\n~\n~", false},
		{"~\n~.", "~\n", true},
	} {
		for _, whole := range []bool{true, false} {
			ended := false
			r := io.Reader(strings.NewReader(c.typed))
			if !whole {
				r = io.MultiReader(pieces(c.typed)...)
			}
			read, err := io.ReadAll(newEscapeReader(r, '~', func() { ended = true }))
			require.NoError(t, err)
			require.Equal(t, c.read, string(read), "%q", c.typed)
			require.Equal(t, c.ends, ended, "%q", c.typed)
		}
	}
}

func pieces(s string) (readers []io.Reader) {
	for i := range len(s) {
		readers = append(readers, bytes.NewReader([]byte{s[i]}))
	}
	return readers
}
