package wasi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/importtest"
	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/internal/racetest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/logfile"
	"github.com/wasmnode/wasmnode/workload/wasi"
)

// freePort returns an address that nobody listens on.
func freePort(t testing.TB) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String())
}

// serving is a spec whose program listens on a free port.
func serving(t testing.TB, id string, module []byte, args ...string) (*workload.Spec, netip.AddrPort) {
	t.Helper()
	sp := spec(id, module, args...)
	sp.MemoryMaxBytes = 64 * megabyte
	base := filepath.Join(t.TempDir(), "task")
	sp.Logs = workload.Logs{StdoutPath: base + ".stdout", StderrPath: base + ".stderr", MaxFiles: 2, MaxFileBytes: megabyte}
	at := freePort(t)
	sp.WASI.Listen = []workload.Listener{{Name: "http", Address: at}}
	return sp, at
}

func logged(t testing.TB, sp *workload.Spec) string {
	t.Helper()
	b, err := os.ReadFile(logfile.Path(sp.Logs.StdoutPath, 0))
	require.NoError(t, err)
	return string(b)
}

// get returns what a server answers.
func get(t testing.TB, at netip.AddrPort, path string) string {
	t.Helper()
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(fmt.Sprintf("http://%s%s", at, path))
	require.NoError(t, err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(b)
}

func TestAGoProgramServesHTTPUntilItsSignal(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	sp, at := serving(t, "web", guestbuild.Program(t, "guest-examples/programs/web"), "good day")
	sp.WASI.Signals = true
	sp.Env = map[string]string{"COLOUR": "blue"}
	sp.WASI.Mounts = []workload.Mount{{GuestPath: "/", HostPath: t.TempDir()}}
	require.NoError(t, s.Start(withTimeout(t), sp))

	require.Equal(t, "good day\n", get(t, at, "/"))
	require.Equal(t, "blue\n", get(t, at, "/env/COLOUR"))
	require.Equal(t, "1\n", get(t, at, "/env/LISTEN_FDS"))
	require.Equal(t, "http\n", get(t, at, "/env/LISTEN_FDNAMES"))

	_, err := net.Listen("tcp", at.String())
	require.Error(t, err, "the port is the program's")
	require.NoError(t, s.Stop(withTimeout(t), "web", "SIGTERM", time.Minute))
	result, err := s.Wait(withTimeout(t), "web")
	require.NoError(t, err)
	require.True(t, result.Successful(), "%+v", result)
	require.Equal(t, "serving http\nstopping for signal 15\n", logged(t, sp))
	l, err := net.Listen("tcp", at.String())
	require.NoError(t, err, "the port is free again")
	require.NoError(t, l.Close())
}

func TestACProgramEchoes(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	sp, at := serving(t, "echo", guestbuild.CProgram(t, "guest-examples/programs/echo"))
	require.NoError(t, s.Start(withTimeout(t), sp))
	text := strings.Repeat("abcdefgh", 1<<17)
	for range 2 {
		c, err := net.Dial("tcp", at.String())
		require.NoError(t, err)
		go func() {
			_, _ = io.WriteString(c, text)
			_ = c.(*net.TCPConn).CloseWrite()
		}()
		got, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Equal(t, len(text), len(got))
		require.True(t, text == string(got))
		require.NoError(t, c.Close())
	}
	require.NoError(t, s.Stop(withTimeout(t), "echo", "SIGTERM", time.Hour), "it takes no signals and ends at once")
}

func TestAPortInUseFailsTheStart(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	sp, at := serving(t, "web", tiny{pages: 1}.bytes())
	l, err := net.Listen("tcp", at.String())
	require.NoError(t, err)
	err = s.Start(withTimeout(t), sp)
	require.EqualError(t, err, fmt.Sprintf(`workload web: listen on port "http" at %s: address already in use`, at))
	require.True(t, abi.IsRecoverable(err))
	require.NoError(t, l.Close())
	require.True(t, run(t, s, sp).Successful(), "it can be tried again")
}

// wasiFunc is a function of WASI with i32s.
func wasiFunc(name string, params int) modtest.Import {
	return modtest.Import{Module: "wasi_snapshot_preview1", Name: name,
		Type: modtest.Type{Params: bytes.Repeat([]byte{modtest.I32}, params), Results: []byte{modtest.I32}}}
}

// hostile accepts for ever on descriptor 3, without a look at what it gets.
func hostile() []byte {
	m := &modtest.Module{Imports: []modtest.Import{wasiFunc("sock_accept", 3)}, Pages: 1}
	m.Funcs = []modtest.Func{{Export: "_start", Body: modtest.Code(modtest.Loop(
		modtest.I32Const(3), modtest.I32Const(0), modtest.I32Const(64), modtest.Call(0), modtest.Drop))}}
	return m.Bytes()
}

// A program that accepts without end and reads nothing has as many connections as it may,
// and ends when it is told to. What waits behind them does not hurt others.
func TestAProgramThatAcceptsWithoutEndHasItsBound(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	sp, at := serving(t, "hostile", hostile())
	require.NoError(t, s.Start(withTimeout(t), sp))
	before := descriptors(t)
	var open []net.Conn
	for range 600 {
		c, err := net.DialTimeout("tcp", at.String(), time.Minute)
		require.NoError(t, err)
		open = append(open, c)
	}
	require.Eventually(t, func() bool { return descriptors(t)-before-len(open) >= 500 }, time.Minute, time.Millisecond)
	require.LessOrEqual(t, descriptors(t)-before-len(open), 500+10)
	// The program never reads: a writer meets the end of two bounded buffers.
	require.NoError(t, open[0].SetWriteDeadline(time.Now().Add(200*time.Millisecond)))
	n, err := io.CopyN(open[0], zeroes{}, 64<<20)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Less(t, n, int64(16<<20))
	require.NoError(t, s.Stop(withTimeout(t), "hostile", "SIGKILL", 0))
	require.NoError(t, s.Destroy(withTimeout(t), "hostile"))
	for _, c := range open {
		require.NoError(t, c.Close())
	}
	require.LessOrEqual(t, descriptors(t), before+10, "nothing of it stays open")
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { return len(p), nil }

func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

// An idle server uses no processor, and a kill ends its wait.
func TestAServerThatWaitsIsNotRunning(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	sp, at := serving(t, "web", guestbuild.Program(t, "guest-examples/programs/web"))
	require.NoError(t, s.Start(withTimeout(t), sp))
	require.Equal(t, "hello\n", get(t, at, "/"))
	time.Sleep(500 * time.Millisecond)
	began := time.Now()
	require.NoError(t, s.Stop(withTimeout(t), "web", "SIGKILL", 0))
	require.Less(t, time.Since(began), 10*time.Second)
	stats, err := s.Stats(withTimeout(t), "web")
	require.NoError(t, err)
	require.Less(t, *stats.CPUTotal, 250*time.Millisecond, "in half a second and more")
}

func TestSignalsAreReadOrRefused(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	sp := spec("deaf", tiny{body: forever}.bytes())
	sp.WASI.Signals = true
	require.NoError(t, s.Start(withTimeout(t), sp))
	require.NoError(t, s.Signal(withTimeout(t), "deaf", "SIGUSR1"))
	var err error
	for range 70_000 { // a pipe is 64 KiB
		if err = s.Signal(withTimeout(t), "deaf", "SIGUSR1"); err != nil {
			break
		}
	}
	require.EqualError(t, err, "workload deaf does not read its signals")
	require.NoError(t, s.Stop(withTimeout(t), "deaf", "SIGTERM", 10*time.Millisecond), "it is killed after the timeout")
	result, err := s.Wait(withTimeout(t), "deaf")
	require.NoError(t, err)
	require.Equal(t, 9, result.Signal)
}

// Another run of the module has other arguments, and the program's files and environment.
func TestExecRunsTheModuleAgain(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	module := guestbuild.Program(t, "workload/workloadtest/testdata/guest")
	sp := spec("main", module, "sleep")
	sp.WASI.Name = "guest.wasm"
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o644))
	sp.WASI.Mounts = []workload.Mount{{GuestPath: "/data", HostPath: dir, ReadOnly: true}}
	sp.Env = map[string]string{"COLOUR": "blue"}
	require.NoError(t, s.Start(withTimeout(t), sp))
	exec := func(ctx context.Context, in io.Reader, command string, args ...string) (string, int, error) {
		var out bytes.Buffer
		result, err := s.Exec(ctx, "main", &workload.ExecSpec{Command: command, Args: args, Stdin: in, Stdout: &out})
		if err != nil {
			return out.String(), -1, err
		}
		return out.String(), result.ExitCode, nil
	}
	for _, c := range []struct {
		args []string
		in   string
		want string
		code int
	}{
		{[]string{"cat", "/data/file"}, "", "content", 0},
		{[]string{"describe"}, "", "args [\"guest.wasm\" \"describe\"]\nenv COLOUR=blue\n", 0},
		{[]string{"exit", "3"}, "", "", 3},
		{[]string{"stdin"}, "12345", "5 bytes, <nil>\n", 0},
	} {
		out, code, err := exec(withTimeout(t), strings.NewReader(c.in), "guest", c.args...)
		require.NoError(t, err)
		require.Equal(t, c.want, out)
		require.Equal(t, c.code, code)
	}
	_, _, err := exec(withTimeout(t), nil, "sh")
	require.Equal(t, abi.NotFound, abi.CodeOf(err))
	require.ErrorContains(t, err, "only guest.wasm can be run")

	// A run that waits for input ends with its caller, and one that computes with the program.
	ctx, cancel := context.WithCancel(withTimeout(t))
	never, stillOpen := io.Pipe()
	time.AfterFunc(50*time.Millisecond, cancel)
	_, _, err = exec(ctx, never, "guest", "stdin")
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, stillOpen.Close())
	time.AfterFunc(50*time.Millisecond, func() { _ = s.Stop(context.Background(), "main", "SIGKILL", 0) })
	_, code, err := exec(withTimeout(t), nil, "guest", "spin")
	require.NoError(t, err)
	require.Equal(t, 137, code)
	_, _, err = exec(withTimeout(t), nil, "guest", "exit", "0")
	require.Equal(t, abi.FailedPrecondition, abi.CodeOf(err))
}

func TestStandardInputIsAFile(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "in"), bytes.Repeat([]byte("x"), 100_000), 0o644))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "out")))
	sp, _ := serving(t, "in", guestbuild.Program(t, "workload/workloadtest/testdata/guest"), "stdin")
	sp.WASI.Stdin = &workload.Mount{HostPath: filepath.Join(dir, "in"), Within: dir}
	require.True(t, run(t, s, sp).Successful())
	require.Equal(t, "100000 bytes, <nil>\n", logged(t, sp))
	for name, says := range map[string]string{"missing": "no such file", "out": "escapes", ".": "not a file"} {
		bad, _ := serving(t, "bad", tiny{pages: 1}.bytes())
		bad.WASI.Stdin = &workload.Mount{HostPath: filepath.Join(dir, name), Within: dir}
		require.ErrorContains(t, s.Start(withTimeout(t), bad), says)
	}
}

// Every function of WASI takes a listener, a pipe of signals and a connection that is not
// there, with any arguments, and a program with the longest poll of them goes on.
func TestNoFunctionFailsOnDescriptorsOfTheHosts(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	descriptors, fills := []int32{3, 4, 5, 1 << 24, -1}, []int64{0, 64, 65535, -1}
	if racetest.On { // a module takes ten times as long to compile
		descriptors, fills = descriptors[1:3], fills[2:3]
	}
	for _, i := range importtest.WASI(t) {
		var body []byte
		for _, fd := range descriptors {
			for _, fill := range fills {
				for n, of := range i.Type.Params {
					switch {
					case n == 0:
						body = append(body, modtest.I32Const(fd)...)
					case of == modtest.I64:
						body = append(body, modtest.I64Const(fill)...)
					default:
						body = append(body, modtest.I32Const(int32(fill))...)
					}
				}
				body = append(body, modtest.Call(0)...)
				for range i.Type.Results {
					body = append(body, modtest.Drop...)
				}
			}
		}
		m := &modtest.Module{Imports: []modtest.Import{i}, Pages: 1, Funcs: []modtest.Func{{Export: "_start", Body: body}}}
		sp, _ := serving(t, i.Name, m.Bytes())
		sp.WASI.Signals = true
		result := run(t, s, sp)
		require.True(t, result.Successful(), "%s: %+v", i.Name, result)
		require.NoError(t, s.Destroy(withTimeout(t), sp.ID))
	}
	subscription := make([]byte, 48)
	subscription[8], subscription[16] = 1, 3 // to read descriptor 3
	m := &modtest.Module{Imports: []modtest.Import{wasiFunc("poll_oneoff", 4)}, Pages: 2,
		Data: []modtest.Data{{Offset: 0, Bytes: bytes.Repeat(subscription, 1024)}},
		Funcs: []modtest.Func{{Export: "_start", Body: modtest.Code(modtest.Loop(
			modtest.I32Const(0), modtest.I32Const(1<<16), modtest.I32Const(1024), modtest.I32Const(8), modtest.Call(0), modtest.Drop))}}}
	sp, at := serving(t, "poll", m.Bytes())
	require.NoError(t, s.Start(withTimeout(t), sp))
	c, err := net.Dial("tcp", at.String()) // which it never accepts: its poll returns at once from now on
	require.NoError(t, err)
	require.NoError(t, s.Stop(withTimeout(t), "poll", "SIGKILL", 0))
	require.NoError(t, c.Close())
}

// TestAProgramListensInItsNetwork: its port is none of the node's.
func TestAProgramListensInItsNetwork(t *testing.T) {
	path := newNetwork(t)
	s := newRuntime(t, wasi.Config{})
	sp, at := serving(t, "web", guestbuild.Program(t, "guest-examples/programs/web"))
	sp.WASI.Network = path
	sp.WASI.Listen[0].Address = netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port())
	there := func() error {
		return wasi.InNetwork(path, func() error {
			l, err := net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", at.Port()))
			if err == nil {
				_ = l.Close()
			}
			return err
		})
	}
	require.NoError(t, there())
	require.NoError(t, s.Start(withTimeout(t), sp))
	require.ErrorIs(t, there(), syscall.EADDRINUSE)
	l, err := net.Listen("tcp", at.String())
	require.NoError(t, err, "it is free on the node")
	require.NoError(t, l.Close())
	require.NoError(t, s.Stop(withTimeout(t), "web", "SIGKILL", time.Minute))
	require.NoError(t, there())

	sp.ID, sp.WASI.Network = "other", path+".gone"
	err = s.Start(withTimeout(t), sp)
	require.ErrorContains(t, err, "the network namespace "+path+".gone is not there")
	require.True(t, abi.IsRecoverable(err))
}

// newNetwork makes a network namespace that lasts as long as the test, and returns its path.
func newNetwork(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "net")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends in the namespace
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		if err == nil {
			err = syscall.Mount("/proc/thread-self/ns/net", path, "", syscall.MS_BIND, "")
		}
		made <- err
	}()
	if err := <-made; err != nil {
		t.Skipf("this machine lets the test make no network namespace: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(path, syscall.MNT_DETACH)) })
	return path
}
