package supervisor_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/supervisor"
	"github.com/wasmnode/wasmnode/workload/wasi"
	"github.com/wasmnode/wasmnode/workload/workloadtest"
)

// process is a supervisor as a process has it, in this one.
type process struct {
	server *supervisor.Server
	ended  chan error
	kill   context.CancelFunc
}

func begin(t testing.TB, dir string, idle time.Duration) *process {
	t.Helper()
	return beginAs(t, dir, idle, nil)
}

func beginAs(t testing.TB, dir string, idle time.Duration, home func() (net.Listener, error)) *process {
	t.Helper()
	e, err := sandbox.Open(sandbox.Config{CacheDir: cacheDir})
	require.NoError(t, err)
	programs := wasi.New(wasi.Config{Logger: hclog.NewNullLogger(), Engine: e})
	server, err := supervisor.NewServer(supervisor.ServerConfig{
		Logger: hclog.NewNullLogger(), Workloads: programs, Dir: supervisor.Results(dir), Version: "1.2.3", IdleTime: idle,
		MayReplace: func(string) error { return nil }, Return: home,
	})
	require.NoError(t, err)
	l, err := supervisor.Listen(supervisor.Socket(dir))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{server: server, ended: make(chan error, 1), kill: cancel}
	go func() {
		err := server.Serve(ctx, l)
		err = errors.Join(err, programs.Close())
		server.Drain()
		p.ended <- errors.Join(err, e.Close(context.Background()))
	}()
	return p
}

// end ends the process and waits for it.
func (p *process) end(t testing.TB) {
	p.kill()
	require.NoError(t, <-p.ended)
}

func connect(t testing.TB, dir string, launch func(context.Context) error) *supervisor.Client {
	t.Helper()
	if launch == nil {
		launch = func(context.Context) error { return errors.New("nobody is to be started") }
	}
	c := supervisor.NewClient(supervisor.ClientConfig{Logger: hclog.NewNullLogger(), Socket: supervisor.Socket(dir), Launch: launch})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestWorkloadsOfAnotherProcessAreWorkloads(t *testing.T) {
	guest := guestbuild.Program(t, workloadtest.GuestPackage)
	f := workloadtest.Fixture{
		New: func(t testing.TB) workload.Runtime {
			dir := t.TempDir()
			p := begin(t, dir, time.Hour)
			t.Cleanup(func() { p.end(t) })
			return connect(t, dir, nil)
		},
		Program: func(_ testing.TB, spec *workload.Spec, args ...string) {
			spec.WASI = &workload.WASIProgram{Name: "guest", Module: guest, Args: args}
		},
		Undeliverable:  "SIGHUP",
		MemoryMaxBytes: 32 << 20,
	}
	workloadtest.Run(t, f)
	workloadtest.RunBeside(t, f, true)
}

func TestWhatStandsBesideAWorkloadIsKnownToTheNextSupervisor(t *testing.T) {
	dir := t.TempDir()
	p := begin(t, dir, time.Hour)
	c := connect(t, dir, nil)
	other := spec(t, "own/side", "exit", "0")
	other.Beside = "own"
	require.NoError(t, c.Start(t.Context(), other))
	_, err := c.Wait(t.Context(), other.ID)
	require.NoError(t, err)
	p.end(t)
	p = begin(t, dir, time.Hour)
	defer p.end(t)
	status, err := c.Inspect(t.Context(), other.ID)
	require.NoError(t, err)
	require.Equal(t, "own", status.Beside)
	require.NoError(t, c.Destroy(t.Context(), "own"))
	left, err := os.ReadDir(supervisor.Results(dir))
	require.NoError(t, err)
	require.Empty(t, left)
}

// spec is a run of the conformance suite's guest.
func spec(t testing.TB, id string, args ...string) *workload.Spec {
	logs := t.TempDir()
	return &workload.Spec{
		ID:             id,
		WASI:           &workload.WASIProgram{Name: "guest", Module: guestbuild.Program(t, workloadtest.GuestPackage), Args: args},
		MemoryMaxBytes: 32 << 20,
		Logs:           workload.Logs{StdoutPath: filepath.Join(logs, "out"), StderrPath: filepath.Join(logs, "err"), MaxFiles: 1, MaxFileBytes: 1 << 20},
	}
}

func TestWorkloadsOutliveTheirClient(t *testing.T) {
	dir := t.TempDir()
	p := begin(t, dir, time.Hour)
	defer p.end(t)
	first := connect(t, dir, nil)
	require.NoError(t, first.Start(t.Context(), spec(t, "runs", "spin")))
	require.NoError(t, first.Start(t.Context(), spec(t, "ends", "exit", "7")))
	exit, err := first.Wait(t.Context(), "ends")
	require.NoError(t, err)
	require.Equal(t, &structs.ExitResult{ExitCode: 7}, exit)
	require.NoError(t, first.Close())

	second := connect(t, dir, nil)
	status, err := second.Inspect(t.Context(), "runs")
	require.NoError(t, err)
	require.Equal(t, workload.Running, status.State)
	exit, err = second.Wait(t.Context(), "ends")
	require.NoError(t, err)
	require.Equal(t, 7, exit.ExitCode)
	require.NoError(t, second.Stop(t.Context(), "runs", "SIGTERM", 0))
}

// TestD15_ErrorsAreWhatTheyAreOnBothSidesOfTheSocket: a caller asks for their code, never
// for the value, which is another one here.
func TestD15_ErrorsAreWhatTheyAreOnBothSidesOfTheSocket(t *testing.T) {
	dir := t.TempDir()
	p := begin(t, dir, time.Hour)
	defer p.end(t)
	c := connect(t, dir, nil)
	_, waitErr := c.Wait(t.Context(), "nobody")
	_, inspectErr := c.Inspect(t.Context(), "nobody")
	_, statsErr := c.Stats(t.Context(), "nobody")
	for op, err := range map[string]error{
		"wait": waitErr, "inspect": inspectErr, "stats": statsErr,
		"stop": c.Stop(t.Context(), "nobody", "", 0), "signal": c.Signal(t.Context(), "nobody", "SIGTERM"),
	} {
		require.ErrorIs(t, err, abi.ErrTaskNotFound, op)
		require.NotSame(t, abi.ErrTaskNotFound, err, op)
		require.False(t, abi.IsRecoverable(err), op)
	}
	bad := spec(t, "bad")
	bad.WASI.Module = []byte("no module")
	require.Equal(t, abi.InvalidArgument, abi.CodeOf(c.Start(t.Context(), bad)))
}

func TestResultsOutliveTheSupervisorUntilTheyAreAcknowledged(t *testing.T) {
	dir := t.TempDir()
	p := begin(t, dir, time.Hour)
	c := connect(t, dir, func(context.Context) error { return nil })
	require.NoError(t, c.Start(t.Context(), spec(t, "ended", "exit", "7")))
	_, err := c.Wait(t.Context(), "ended")
	require.NoError(t, err)
	before, err := c.Inspect(t.Context(), "ended")
	require.NoError(t, err)
	p.end(t)
	require.NoError(t, os.WriteFile(filepath.Join(supervisor.Results(dir), "half.json"), []byte(`{"ID":"ha`), 0o600))

	p = begin(t, dir, time.Hour)
	exit, err := c.Wait(t.Context(), "ended")
	require.NoError(t, err)
	require.Equal(t, 7, exit.ExitCode)
	after, err := c.Inspect(t.Context(), "ended")
	require.NoError(t, err)
	require.True(t, before.ExitedAt.Equal(after.ExitedAt))
	require.NoError(t, c.Stop(t.Context(), "ended", "", 0))
	require.Equal(t, abi.FailedPrecondition, abi.CodeOf(c.Signal(t.Context(), "ended", "SIGTERM")))
	require.Equal(t, abi.AlreadyExists, abi.CodeOf(c.Start(t.Context(), spec(t, "ended", "exit", "0"))))
	list, err := c.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.NoError(t, c.Destroy(t.Context(), "ended"))
	require.NoError(t, c.Destroy(t.Context(), "ended"))
	p.end(t)
	files, err := os.ReadDir(supervisor.Results(dir))
	require.NoError(t, err)
	require.Empty(t, files)
}

func TestASupervisorIsStartedWhenItIsNeededAndAgainWhenItDies(t *testing.T) {
	dir := t.TempDir()
	started := make(chan *process, 10)
	c := connect(t, dir, func(context.Context) error {
		started <- begin(t, dir, time.Hour)
		return nil
	})
	require.Empty(t, started)
	require.NoError(t, c.Start(t.Context(), spec(t, "a", "spin")))
	require.Len(t, started, 1)
	waited := make(chan error, 1)
	go func() {
		_, err := c.Wait(context.Background(), "a")
		waited <- err
	}()
	(<-started).end(t)
	// What it owned went with it: either the wait was told of the end, or the next
	// supervisor does not know the workload.
	if err := <-waited; err != nil {
		require.Contains(t, []abi.Code{abi.NotFound, abi.Unavailable}, abi.CodeOf(err), "%v", err)
	}
	require.NoError(t, c.Start(t.Context(), spec(t, "b", "exit", "0")))
	require.Len(t, started, 1)
	(<-started).end(t)
}

func TestAStartThatWasNotSentGoesToTheNextSupervisor(t *testing.T) {
	dir := t.TempDir()
	var last *process
	c := connect(t, dir, func(context.Context) error {
		last = begin(t, dir, time.Hour)
		return nil
	})
	require.NoError(t, c.Start(t.Context(), spec(t, "a", "exit", "0")))
	last.end(t)
	require.NoError(t, c.Close()) // its connections are gone, which it has not noticed
	require.NoError(t, c.Start(t.Context(), spec(t, "b", "exit", "0")))
	last.end(t)
}

// Who asked knows whether what else it started with the supervisor is wanted without that.
func TestAStartThatIsNotAnsweredIsNotSentAgain(t *testing.T) {
	dir := t.TempDir()
	var starts atomic.Int64
	serveHello(t, dir, `{"Protocol":1}`).HandleFunc("POST /v1/start", func(w http.ResponseWriter, _ *http.Request) {
		starts.Add(1)
		conn, _, err := http.NewResponseController(w).Hijack()
		assert.NoError(t, err)
		assert.NoError(t, conn.Close())
	})
	err := connect(t, dir, nil).Start(t.Context(), &workload.Spec{ID: "a", Process: &workload.Process{}})
	require.ErrorIs(t, err, workload.ErrLost)
	require.EqualValues(t, 1, starts.Load())
}

// ending is a runtime of a workload that is gone when it is destroyed, and others do
// something meanwhile.
type ending struct {
	workload.Runtime
	gone chan struct{}
	end  func() // closes it, after what others do
}

func (ending) Start(context.Context, *workload.Spec) error { return nil }

func (e ending) Wait(context.Context, string) (*structs.ExitResult, error) {
	<-e.gone
	return nil, abi.NewError(abi.NotFound, "it was destroyed")
}

func (e ending) Destroy(context.Context, string) error {
	e.end()
	return nil
}

func TestAnIDIsTakenUntilItsWorkloadIsForgotten(t *testing.T) {
	var c *supervisor.Client
	var meanwhile error
	again := &workload.Spec{ID: "a"}
	gone := make(chan struct{})
	c, _ = serve(t, ending{gone: gone, end: sync.OnceFunc(func() {
		meanwhile = c.Start(t.Context(), again)
		close(gone)
	})})
	require.NoError(t, c.Start(t.Context(), again))
	require.NoError(t, c.Destroy(t.Context(), "a"))
	require.Equal(t, abi.AlreadyExists, abi.CodeOf(meanwhile), "%v", meanwhile)
	require.NoError(t, c.Start(t.Context(), again))
}

// TestASupervisorThatIsEndingIsFollowedByAnother: it answers no more, and has the directory
// still.
func TestASupervisorThatIsEndingIsFollowedByAnother(t *testing.T) {
	dir := t.TempDir()
	ending, err := supervisor.Lock(dir)
	require.NoError(t, err)
	var next *process
	c := connect(t, dir, func(context.Context) error {
		lock, err := supervisor.Lock(dir)
		if err != nil {
			return errors.Join(err, ending.Close())
		}
		next = begin(t, dir, time.Hour)
		return lock.Close()
	})
	err = c.Signal(t.Context(), "nobody", "SIGTERM") // which is asked once, as a start is
	require.ErrorIs(t, err, abi.ErrTaskNotFound)
	next.end(t)
}

func TestAStartFailsWithTheReasonWhyTheSupervisorDoesNotStart(t *testing.T) {
	c := connect(t, t.TempDir(), func(context.Context) error { return errors.New("no such program") })
	exits := spec(t, "a", "exit", "0")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := c.Start(ctx, exits)
	require.Equal(t, abi.Unavailable, abi.CodeOf(err))
	require.True(t, abi.IsRecoverable(err))
	require.ErrorContains(t, err, "the supervisor of workloads failed to start: no such program")
}

func TestASupervisorWithoutWorkloadsAndClientsEnds(t *testing.T) {
	dir := t.TempDir()
	c := connect(t, dir, nil)
	p := begin(t, dir, time.Hour)
	has := func(clients, workloads int) {
		t.Helper()
		require.Eventually(t, func() bool {
			nowClients, nowWorkloads := p.server.Needed()
			return nowClients == clients && nowWorkloads == workloads
		}, time.Minute, time.Millisecond)
	}
	require.NoError(t, c.Start(t.Context(), spec(t, "a", "spin")))
	require.NoError(t, c.Close())
	has(0, 1)
	require.False(t, p.server.BeIdle(), "it has a workload")
	require.NoError(t, c.Stop(t.Context(), "a", "SIGKILL", 0))
	keepConnection(t, c)
	has(1, 0)
	require.False(t, p.server.BeIdle(), "it has a client")
	require.NoError(t, c.Close())
	has(0, 0)
	require.True(t, p.server.BeIdle())
	require.NoError(t, <-p.ended)
}

// keepConnection has a client ask something until its connection stays open: one on which
// it was slow to write is closed.
func keepConnection(t *testing.T, c *supervisor.Client) {
	t.Helper()
	require.Eventually(t, func() bool {
		kept := false
		_, err := c.List(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			PutIdleConn: func(err error) { kept = err == nil },
		}))
		return err == nil && kept
	}, time.Minute, time.Millisecond)
}

func TestOnlyOneSupervisorHasADirectory(t *testing.T) {
	dir := t.TempDir()
	first, err := supervisor.Lock(dir)
	require.NoError(t, err)
	_, err = supervisor.Lock(dir)
	require.ErrorContains(t, err, "has a supervisor already")
	require.NoError(t, first.Close())
	again, err := supervisor.Lock(dir)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

func TestASocketMayHaveALongPathAndIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep/", 40))
	require.NoError(t, os.MkdirAll(dir, 0o700))
	p := begin(t, dir, time.Hour)
	defer p.end(t)
	info, err := os.Stat(supervisor.Socket(dir))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	_, err = connect(t, dir, nil).List(t.Context())
	require.NoError(t, err)
}

func TestAnotherProtocolIsRefusedWithWhatToDo(t *testing.T) {
	dir := t.TempDir()
	serveHello(t, dir, `{"Protocol":99,"Version":"9.0.0","PID":4242}`)
	_, err := connect(t, dir, nil).List(t.Context())
	require.Equal(t, abi.FailedPrecondition, abi.CodeOf(err))
	require.ErrorContains(t, err, "process 4242) is of version 9.0.0")
}

func TestAnEarlierSupervisorStartsNothingThatItWouldLeaveOut(t *testing.T) {
	dir := t.TempDir()
	serveHello(t, dir, `{"Protocol":1,"Version":"0.1.0","PID":4242}`) // and knows no other operation
	for _, spec := range []*workload.Spec{
		{ID: "a", Process: &workload.Process{Network: "/run/netns/a"}},
		{ID: "a", WASI: &workload.WASIProgram{Listen: []workload.Listener{{Name: "http"}}}},
		{ID: "a", WASI: &workload.WASIProgram{Signals: true}},
		{ID: "a", WASI: &workload.WASIProgram{Stdin: &workload.Mount{HostPath: "/in"}}},
	} {
		err := connect(t, dir, nil).Start(t.Context(), spec)
		require.Equal(t, abi.Unimplemented, abi.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, "the supervisor of workloads is of an earlier version, which cannot do this")
	}
}
