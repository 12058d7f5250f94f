package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/internal/codetest"
	"github.com/wasmnode/wasmnode/internal/leaktest"
	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/runners/allocdir/allocdirtest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

const (
	// testTimeout is how long anything that a test waits for may take: far longer than
	// it does, for machines that do much else.
	testTimeout = time.Minute
	tick        = 20 * time.Millisecond
)

// What the tests share: the binary, and compiled code, since a Go plugin takes a
// second to compile.
var binary, codeCache string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "wasmnode-cmd-test")
	if err != nil {
		log.Fatal(err)
	}
	binary, codeCache = filepath.Join(dir, "wasmnode"), filepath.Join(dir, "cache")
	build := exec.Command("go", "build", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		log.Fatalf("building the binary: %v\n%s", err, out)
	}
	if err := os.Mkdir(codeCache, 0o700); err != nil {
		log.Fatal(err)
	}
	codetest.Restore(codeCache)
	goleak.VerifyTestMain(leaktest.WithTimeout(m), goleak.Cleanup(func(code int) {
		codetest.Save(codeCache)
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// site is a node's directories and its configuration file: what stays when the agent
// ends.
type site struct{ binary, data, plugins, programs, config string }

// newSite makes a node with some of the drivers of guest-examples/drivers, by their
// directory; the driver "wasi" may run what lies in programs.
func newSite(t *testing.T, drivers ...string) *site {
	t.Helper()
	return newSiteIn(t, t.TempDir(), drivers...)
}

// newSiteIn is newSite in a directory that may have some of it already.
func newSiteIn(t *testing.T, dir string, drivers ...string) *site {
	t.Helper()
	s := &site{
		binary: binary, data: filepath.Join(dir, "data"), plugins: filepath.Join(dir, "plugins"),
		programs: filepath.Join(dir, "programs"), config: filepath.Join(dir, "node.hcl"),
	}
	for _, d := range []string{s.data, s.plugins, s.programs} {
		require.NoError(t, os.MkdirAll(d, 0o700))
	}
	require.NoError(t, os.Symlink(codeCache, filepath.Join(s.data, "cache")))
	allocdirtest.Unmount(t, s.data)
	t.Cleanup(func() {
		s.killSupervisor(t)
		if log, err := os.ReadFile(filepath.Join(s.data, "supervisor", "supervisor.log")); err == nil && t.Failed() {
			t.Logf("the supervisors' log:\n%s", log)
		}
	})
	// However full the machine's disk is, what has ended is kept.
	write(t, s.config, fmt.Sprintf(`data_dir = %q
plugin_dir = %q
client {
  gc_disk_usage_threshold  = 100
  gc_inode_usage_threshold = 100
}
plugin "wasi" { grant { wasm { directories = [%q] } } }
`, s.data, s.plugins, s.programs))
	for _, name := range drivers {
		s.drop(t, name+".wasm", driver(t, name))
	}
	return s
}

// grant adds to the node's configuration.
func (s *site) grant(t *testing.T, text string) {
	t.Helper()
	before, err := os.ReadFile(s.config)
	require.NoError(t, err)
	write(t, s.config, string(before)+text+"\n")
}

// killSupervisor kills the process that owns the tasks, and reports whether there was
// one. It has ended then, and its connections with it: what an agent asks on one that is
// only about to end gets no answer.
func (s *site) killSupervisor(t *testing.T) bool {
	t.Helper()
	pid, err := os.ReadFile(filepath.Join(s.data, "supervisor", "lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	require.NoError(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(string(pid)))
	if err != nil {
		return false // it has only begun to write it
	}
	fd, err := unix.PidfdOpen(n, 0)
	if errors.Is(err, unix.ESRCH) {
		return false
	}
	require.NoError(t, err)
	defer func() { _ = unix.Close(fd) }()
	// Once it has ended, its number may be another process's.
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", n)); err != nil || filepath.Dir(exe) != filepath.Dir(s.binary) {
		return false
	}
	killed := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	if !errors.Is(killed, unix.ESRCH) {
		require.NoError(t, killed)
	}
	ended := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	require.Eventually(t, func() bool { n, _ := unix.Poll(ended, 0); return n > 0 }, testTimeout, time.Millisecond)
	return killed == nil
}

// driver compiles a driver of guest-examples/drivers.
func driver(t testing.TB, name string) []byte {
	t.Helper()
	return guestbuild.Plugin(t, "guest-examples/drivers/"+name)
}

// drop puts a file into the plugin directory as the documentation says: whole.
func (s *site) drop(t *testing.T, name string, content []byte) {
	t.Helper()
	partial := filepath.Join(s.plugins, "."+name+".partial")
	require.NoError(t, os.WriteFile(partial, content, 0o600))
	require.NoError(t, os.Rename(partial, filepath.Join(s.plugins, name)))
}

// program compiles a program of guest-examples/programs, and returns the path that a
// task may name as its module.
func (s *site) program(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(s.programs, name+".wasm")
	require.NoError(t, os.WriteFile(path, guestbuild.Program(t, "guest-examples/programs/"+name), 0o600))
	return path
}

// write writes a file and returns its path.
func write(t *testing.T, path, content string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// start runs "agent -config" on a free port until the test ends, and returns when it
// is ready.
func (s *site) start(t *testing.T, flags ...string) *node {
	t.Helper()
	return startAgent(t, s.binary, append([]string{"-config", s.config}, flags...)...)
}

// node is an agent that runs.
type node struct {
	address string // HOST:PORT
	log     *transcript
	cmd     *exec.Cmd
	exited  chan struct{} // closed when it has ended and cmd.ProcessState is set
}

var readyLine = regexp.MustCompile(`agent is ready: http_addr=(\S+)`)

func startAgent(t *testing.T, program string, flags ...string) *node {
	t.Helper()
	return startProcess(t, exec.Command(program, append([]string{"agent", "-http-addr", "127.0.0.1:0"}, flags...)...))
}

// startProcess starts an agent's process, and returns when the agent is ready.
func startProcess(t *testing.T, cmd *exec.Cmd) *node {
	t.Helper()
	n := launchProcess(t, cmd)
	n.address = n.log.await(t, readyLine, n.exited)[1]
	return n
}

// launchProcess starts an agent's process and does not wait until it is ready.
func launchProcess(t testing.TB, cmd *exec.Cmd) *node {
	t.Helper()
	n := &node{log: &transcript{grown: wake.New()}, cmd: cmd, exited: make(chan struct{})}
	n.cmd.Stdout, n.cmd.Stderr = n.log, n.log
	// Also when the tests end without cleaning up, as a timeout makes them.
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, n.cmd.Start())
	go func() {
		defer close(n.exited)
		_ = n.cmd.Wait() // the exit code is in ProcessState
	}()
	t.Cleanup(func() {
		n.signal(t, syscall.SIGKILL)
		if t.Failed() {
			t.Logf("the agent's log:\n%s", n.log)
		}
	})
	return n
}

// signal sends a signal and returns the exit code of the agent that it ends: -1 when
// the signal killed it.
func (n *node) signal(t testing.TB, s os.Signal) (code int) {
	t.Helper()
	if err := n.cmd.Process.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		require.NoError(t, err)
	}
	select {
	case <-n.exited:
	case <-time.After(testTimeout):
		require.FailNow(t, "the agent did not end", "signal %s\n%s", s, n.log)
	}
	return n.cmd.ProcessState.ExitCode()
}

// transcript is what a process wrote so far.
type transcript struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	grown wake.Signal // there is more to look at
}

// Write implements io.Writer.
func (l *transcript) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grown.Set()
	return l.buf.Write(p)
}

func (l *transcript) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// await returns the first match of a pattern, and its groups. One goroutine may wait.
func (l *transcript) await(t testing.TB, pattern *regexp.Regexp, exited <-chan struct{}) []string {
	t.Helper()
	return l.awaitFor(t, testTimeout, pattern, exited)
}

// awaitFor is [transcript.await] with more patience than other tests have.
func (l *transcript) awaitFor(t testing.TB, patience time.Duration, pattern *regexp.Regexp, exited <-chan struct{}) []string {
	t.Helper()
	late := time.After(patience)
	for {
		if m := pattern.FindStringSubmatch(l.String()); m != nil {
			return m
		}
		select {
		case <-l.grown.C():
		case <-exited:
			require.FailNow(t, "the agent ended", "waiting for %s in\n%s", pattern, l)
		case <-late:
			require.FailNow(t, "the agent never said it", "waiting for %s in\n%s", pattern, l)
		}
	}
}

// result is what a command did.
type result struct {
	code           int
	stdout, stderr string
}

// command runs the binary with arguments and waits for its end.
func command(t *testing.T, address string, args ...string) result {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "NOMAD_ADDR=http://"+address, "TZ=UTC")
	return execute(t, cmd)
}

// execute runs a process that is to end by itself.
func execute(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	overdue := time.AfterFunc(testTimeout, func() { _ = cmd.Process.Kill() })
	defer overdue.Stop()
	if err := cmd.Wait(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// run runs a command against the node.
func (n *node) run(t *testing.T, args ...string) result {
	t.Helper()
	return command(t, n.address, args...)
}

// out runs a command that has to succeed and returns what it printed.
func (n *node) out(t *testing.T, args ...string) string {
	t.Helper()
	r := n.run(t, args...)
	require.Zero(t, r.code, "%s\n%s%s", strings.Join(args, " "), r.stdout, r.stderr)
	require.Empty(t, r.stderr)
	return r.stdout
}
