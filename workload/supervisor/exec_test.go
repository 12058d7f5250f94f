package supervisor_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/supervisor"
)

// commands is a supervisor with one workload, "shell", whose commands are functions.
type commands struct {
	workload.Runtime // nil: nothing else is asked of it
	run              func(ctx context.Context, spec *workload.ExecSpec) (*structs.ExitResult, error)
}

func (c commands) Inspect(_ context.Context, id string) (*workload.Status, error) {
	if id != "shell" {
		return nil, abi.NewError(abi.NotFound, "workload "+id+" does not exist")
	}
	return &workload.Status{ID: id, State: workload.Running}, nil
}

// Run runs a helper as a command.
func (c commands) Run(ctx context.Context, h *workload.Helper) (*structs.ExitResult, error) {
	return c.run(ctx, &workload.ExecSpec{Command: h.Command, Args: h.Args, Stdin: h.Stdin, Stdout: h.Stdout, Stderr: h.Stderr})
}

func (c commands) Exec(ctx context.Context, _ string, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	return c.run(ctx, spec)
}

// serveCommands has commands run by another process's supervisor, as far as the client
// that it returns can tell. The supervisor ends with kill.
func serveCommands(t testing.TB, run func(context.Context, *workload.ExecSpec) (*structs.ExitResult, error)) (c *supervisor.Client, kill func()) {
	t.Helper()
	return serve(t, commands{run: run})
}

// serve has another process's supervisor own workloads, as far as the client that it
// returns can tell. The supervisor ends with kill.
func serve(t testing.TB, workloads workload.Runtime) (c *supervisor.Client, kill func()) {
	t.Helper()
	dir := t.TempDir()
	server, err := supervisor.NewServer(supervisor.ServerConfig{
		Logger: hclog.NewNullLogger(), Workloads: workloads, Dir: supervisor.Results(dir), Version: "1.2.3", IdleTime: time.Hour,
	})
	require.NoError(t, err)
	l, err := supervisor.Listen(supervisor.Socket(dir))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	kill = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(kill)
	return connect(t, dir, nil), kill
}

// echo writes what it reads to both outputs.
func echo(_ context.Context, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	_, err := io.Copy(io.MultiWriter(spec.Stdout, spec.Stderr), spec.Stdin)
	return &structs.ExitResult{ExitCode: 3, Signal: 9}, err
}

func TestACommandsStreamsGoThroughASupervisor(t *testing.T) {
	c, _ := serveCommands(t, echo)
	for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, 10 << 20} {
		in := bytes.Repeat([]byte("0123456789abcde\n"), size/16+1)[:size]
		var stdout, stderr bytes.Buffer
		exit, err := c.Exec(t.Context(), "shell", &workload.ExecSpec{Command: "x", Stdin: bytes.NewReader(in), Stdout: &stdout, Stderr: &stderr})
		require.NoError(t, err)
		require.Equal(t, &structs.ExitResult{ExitCode: 3, Signal: 9}, exit)
		require.True(t, bytes.Equal(in, stdout.Bytes()), "%d of %d bytes", stdout.Len(), size)
		require.True(t, bytes.Equal(in, stderr.Bytes()), "%d of %d bytes", stderr.Len(), size)
	}
}

func TestAnExecSpecReachesTheWorkloadWhole(t *testing.T) {
	var got workload.ExecSpec
	sizes := make(chan workload.Size, 2)
	c, _ := serveCommands(t, func(_ context.Context, spec *workload.ExecSpec) (*structs.ExitResult, error) {
		got = *spec
		sizes <- <-spec.Resize
		return &structs.ExitResult{}, nil
	})
	resize := make(chan workload.Size, 1)
	resize <- workload.Size{Rows: 3, Columns: 4}
	_, err := c.Exec(t.Context(), "shell", &workload.ExecSpec{Command: "x", Args: []string{"a", ""}, TTY: true, Size: workload.Size{Rows: 1, Columns: 2}, Resize: resize})
	require.NoError(t, err)
	require.Equal(t, "x", got.Command)
	require.Equal(t, []string{"a", ""}, got.Args)
	require.True(t, got.TTY)
	require.Equal(t, workload.Size{Rows: 1, Columns: 2}, got.Size)
	require.Equal(t, workload.Size{Rows: 3, Columns: 4}, <-sizes)
	require.Nil(t, got.Stdin)
	require.Nil(t, got.Stdout)
	require.Nil(t, got.Stderr)
}

func TestACommandsErrorKeepsItsCode(t *testing.T) {
	c, _ := serveCommands(t, func(context.Context, *workload.ExecSpec) (*structs.ExitResult, error) {
		return nil, abi.NewRecoverableError(abi.ResourceExhausted, "not now")
	})
	_, err := c.Exec(t.Context(), "shell", &workload.ExecSpec{Command: "x"})
	require.Equal(t, abi.ResourceExhausted, abi.CodeOf(err))
	require.True(t, abi.IsRecoverable(err))
	require.EqualError(t, err, "not now")
	_, err = c.Exec(t.Context(), "nobody", &workload.ExecSpec{Command: "x"})
	require.Equal(t, abi.NotFound, abi.CodeOf(err))
	require.ErrorContains(t, err, "workload nobody does not exist")
}

// hang tells when it begins and ends, and does nothing in between. It reads nothing.
func hang(begun, ended chan<- struct{}) func(context.Context, *workload.ExecSpec) (*structs.ExitResult, error) {
	return func(ctx context.Context, _ *workload.ExecSpec) (*structs.ExitResult, error) {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return nil, ctx.Err()
	}
}

func TestACommandEndsWithItsClient(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	c, _ := serveCommands(t, hang(begun, ended))
	for name, stdin := range map[string]io.Reader{"no input": nil, "input that is not read": zeros{}} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := c.Exec(ctx, "shell", &workload.ExecSpec{Command: "x", Stdin: stdin})
			done <- err
		}()
		<-begun
		cancel()
		require.ErrorIs(t, <-done, context.Canceled, name)
		<-ended
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	_, err := c.Run(ctx, &workload.Helper{Command: "/x"})
	require.ErrorIs(t, err, context.Canceled, "a helper does, too")
	<-ended
}

func TestAHelperRunsInASupervisor(t *testing.T) {
	c, _ := serveCommands(t, func(ctx context.Context, spec *workload.ExecSpec) (*structs.ExitResult, error) {
		require.Equal(t, []string{"/x", "y"}, append([]string{spec.Command}, spec.Args...))
		return echo(ctx, spec)
	})
	var stdout bytes.Buffer
	exit, err := c.Run(t.Context(), &workload.Helper{Command: "/x", Args: []string{"y"}, Stdin: strings.NewReader("in"), Stdout: &stdout, Stderr: io.Discard})
	require.NoError(t, err)
	require.Equal(t, &structs.ExitResult{ExitCode: 3, Signal: 9}, exit)
	require.Equal(t, "in", stdout.String())
}

// zeros is an input without an end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func TestACommandWhoseInputFailsEnds(t *testing.T) {
	begun, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	c, _ := serveCommands(t, hang(begun, ended))
	_, err := c.Exec(t.Context(), "shell", &workload.ExecSpec{Command: "x", Stdin: io.MultiReader(strings.NewReader("a"), failing{})})
	require.EqualError(t, err, "the command's input: no more")
	<-ended
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("no more") }

func TestACommandWhoseOutputCannotBeWrittenEnds(t *testing.T) {
	ended := make(chan error, 1)
	c, _ := serveCommands(t, func(_ context.Context, spec *workload.ExecSpec) (*structs.ExitResult, error) {
		_, err := io.Copy(spec.Stdout, zeros{})
		ended <- err
		return nil, err
	})
	_, err := c.Exec(t.Context(), "shell", &workload.ExecSpec{Command: "x", Stdout: failing{}})
	require.ErrorContains(t, err, "the command's output: full")
	require.Error(t, <-ended)
}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestCommandsEndWithTheirSupervisor(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	c, kill := serveCommands(t, hang(begun, ended))
	done := make(chan error, 1)
	go func() {
		_, err := c.Exec(t.Context(), "shell", &workload.ExecSpec{Command: "x"})
		done <- err
	}()
	<-begun
	go kill()
	<-ended
	err := <-done
	require.Equal(t, abi.Unavailable, abi.CodeOf(err))
	require.ErrorContains(t, err, "the supervisor of workloads has ended")
}

func TestManyCommandsAtOnceLeaveNoConnections(t *testing.T) {
	c, _ := serveCommands(t, echo)
	_, err := c.List(t.Context()) // opens what stays open
	require.Error(t, err)
	before := openFiles(t)
	var running sync.WaitGroup
	for range 20 {
		running.Go(func() {
			var out bytes.Buffer
			in := strings.Repeat("x", 100_000)
			if _, err := c.Exec(t.Context(), "shell", &workload.ExecSpec{Command: "x", Stdin: strings.NewReader(in), Stdout: &out, Stderr: io.Discard}); err != nil || out.String() != in {
				t.Errorf("%v, %d bytes", err, out.Len())
			}
		})
	}
	running.Wait()
	require.Eventually(t, func() bool { return openFiles(t) <= before }, time.Minute, time.Millisecond)
}

func openFiles(t testing.TB) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(open)
}

// serveHello is a supervisor that can do nothing but say who it is, and what is added to what it returns.
func serveHello(t testing.TB, dir, hello string) *http.ServeMux {
	t.Helper()
	l, err := net.Listen("unix", supervisor.Socket(dir))
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/hello", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, hello) })
	web := &http.Server{Handler: mux}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = web.Serve(l)
	}()
	t.Cleanup(func() {
		require.NoError(t, web.Close())
		<-ended
	})
	return mux
}

func TestACommandIsRefusedByASupervisorThatRunsNone(t *testing.T) {
	dir := t.TempDir()
	serveHello(t, dir, `{"Protocol":1,"Version":"0.0.1","PID":1}`)
	_, err := connect(t, dir, nil).Exec(t.Context(), "shell", &workload.ExecSpec{Command: "x"})
	require.Equal(t, abi.Unimplemented, abi.CodeOf(err))
	require.ErrorContains(t, err, "of a version that runs no commands")
}
