package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/registry"
)

// scripted is a runtime whose workloads end when a test says so, or, if they are to end at once, with
// their start.
type scripted struct {
	*registry.Registry[*holding]
	atOnce bool
	refuse chan struct{} // a start waits for it to be closed, and fails; nil: it does not
}

type holding struct {
	id    string
	ended chan struct{}
	once  sync.Once
	exit  *structs.ExitResult
}

func (h *holding) ID() string            { return h.id }
func (h *holding) Done() <-chan struct{} { return h.ended }
func (h *holding) Kill()                 { h.end(killed) }

func (h *holding) end(exit *structs.ExitResult) {
	h.once.Do(func() { h.exit = exit; close(h.ended) })
}

func (h *holding) Status() *workload.Status {
	if wake.IsClosed(h.ended) {
		return &workload.Status{ID: h.id, State: workload.Exited, Exit: h.exit}
	}
	return &workload.Status{ID: h.id, State: workload.Running}
}

func (r *scripted) CheckIsolation(workload.Isolation) error { return nil }

func (r *scripted) Start(_ context.Context, spec *workload.Spec) error {
	if r.refuse != nil {
		<-r.refuse
		return abi.NewError(abi.InvalidArgument, "refused")
	}
	w := &holding{id: spec.ID, ended: make(chan struct{})}
	if err := r.Add(w); err != nil {
		return err
	}
	if r.atOnce {
		w.end(exitOf(spec.Env["exit"]))
	}
	return nil
}

func exitOf(text string) *structs.ExitResult {
	return &structs.ExitResult{ExitCode: len(text)}
}

func (r *scripted) end(t *testing.T, id string, exit *structs.ExitResult) {
	t.Helper()
	w, err := r.Find(id)
	require.NoError(t, err)
	w.end(exit)
}

func (r *scripted) Stop(context.Context, string, string, time.Duration) error { return nil }
func (r *scripted) Signal(context.Context, string, string) error              { return nil }
func (r *scripted) Exec(context.Context, string, *workload.ExecSpec) (*structs.ExitResult, error) {
	return nil, errors.ErrUnsupported
}

func (r *scripted) Run(context.Context, *workload.Helper) (*structs.ExitResult, error) {
	return nil, errors.ErrUnsupported
}

func (r *scripted) Stats(context.Context, string) (*workload.Stats, error) {
	return nil, errors.ErrUnsupported
}

// serving is a server on a socket, and a client of it.
type serving struct {
	*Client
	server *Server
	tasks  *scripted
	dir    string
	end    func()
}

func serve(t *testing.T, atOnce bool) *serving {
	t.Helper()
	s := &serving{tasks: &scripted{Registry: registry.New[*holding](0), atOnce: atOnce}, dir: t.TempDir()}
	s.begin(t)
	s.Client = NewClient(ClientConfig{
		Logger: hclog.NewNullLogger(), Socket: Socket(s.dir), Launch: func(context.Context) error { s.begin(t); return nil },
	})
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		s.end()
		for _, w := range s.tasks.All() {
			w.Kill()
		}
		s.server.Drain()
	})
	return s
}

// begin has the server begin: the first, or one after it.
func (s *serving) begin(t *testing.T) {
	t.Helper()
	server, err := NewServer(ServerConfig{Logger: hclog.NewNullLogger(), Workloads: s.tasks, Dir: Results(s.dir), IdleTime: time.Hour})
	require.NoError(t, err)
	l, err := Listen(Socket(s.dir))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	s.server, s.end = server, func() { cancel(); require.NoError(t, <-ended) }
}

func (s *serving) start(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, s.Start(t.Context(), &workload.Spec{ID: id}))
}

// listens returns when a wait has had the client listen.
func (s *serving) listens(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return s.following() != nil }, time.Minute, time.Millisecond)
}

// waiting waits in the background.
func (s *serving) waiting(t *testing.T, id string) <-chan *structs.ExitResult {
	t.Helper()
	got := make(chan *structs.ExitResult, 1)
	go func() {
		exit, err := s.Wait(t.Context(), id)
		if abi.CodeOf(err) != abi.NotFound && err != nil {
			t.Error(err)
		}
		got <- exit
	}()
	return got
}

func TestWaitsShareAConnection(t *testing.T) {
	s := serve(t, false)
	const count = 100
	var got []<-chan *structs.ExitResult
	for i := range count {
		s.start(t, fmt.Sprint(i))
		got = append(got, s.waiting(t, fmt.Sprint(i)), s.waiting(t, fmt.Sprint(i)))
	}
	s.listens(t)
	clients, _ := s.server.Needed()
	require.Less(t, clients, count/2)
	for i := range count {
		s.tasks.end(t, fmt.Sprint(i), exitOf(fmt.Sprint(i)))
		for _, one := range got[2*i : 2*i+2] {
			require.Equal(t, exitOf(fmt.Sprint(i)), <-one)
		}
	}
}

func TestWhatEndsBeforeItsStartIsAnsweredIsHeardOf(t *testing.T) {
	s := serve(t, true)
	for i := range 200 {
		id := fmt.Sprint(i % 3) // each again after it was destroyed
		text := fmt.Sprint(1 << i % 5)
		require.NoError(t, s.Start(t.Context(), &workload.Spec{ID: id, Env: map[string]string{"exit": text}}))
		for range 2 {
			exit, err := s.Wait(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, exitOf(text), exit)
		}
		require.NoError(t, s.Destroy(t.Context(), id))
		_, err := s.Wait(t.Context(), id)
		require.ErrorIs(t, err, abi.ErrTaskNotFound)
	}
	f := s.following()
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Empty(t, f.byID)
	require.Empty(t, f.runs)
}

// TestAnEndingIsKnownOnce, whatever comes in which order.
func TestAnEndingIsKnownOnce(t *testing.T) {
	f := &follower{byID: map[string]*ending{}, runs: map[uint64]*ending{}, beside: map[string][]string{}}
	e, _ := f.expect("a")
	f.heard(ended{Run: 7, ID: "a", Exit: killed})
	f.forget("a") // it is destroyed before its start is answered
	f.found(e, found{Run: 7})
	f.heard(ended{Run: 7, ID: "a", Exit: killed})
	require.True(t, e.again)
	next, first := f.expect("a")
	require.True(t, first)
	f.drop(e) // that was not this one
	f.found(next, found{Run: 8})
	f.heard(ended{Run: 8, ID: "of another supervisor", Exit: killed})
	require.False(t, wake.IsClosed(next.known))
	f.heard(ended{Run: 8, ID: "a", Exit: exitOf("a")})
	require.Equal(t, exitOf("a"), next.exit)
	side, _ := f.expect("a/side")
	f.found(side, found{Run: 9})
	f.startedBeside("a/side", "a")
	f.forget("a")
	require.Empty(t, f.byID)
	require.Empty(t, f.beside)
	f.heard(ended{Run: 9, ID: "a/side"})
	require.True(t, wake.IsClosed(side.known))
	require.Empty(t, f.runs)
}

func TestAFailedStartIsNotWaitedFor(t *testing.T) {
	s := serve(t, false)
	s.start(t, "a")
	got := s.waiting(t, "a")
	s.listens(t)
	require.Equal(t, abi.AlreadyExists, abi.CodeOf(s.Start(t.Context(), &workload.Spec{ID: "a"})))
	require.Error(t, s.Start(t.Context(), &workload.Spec{ID: "b", Beside: "a", WASI: &workload.WASIProgram{}, Process: nil, Env: map[string]string{"big": string(make([]byte, maxRequestBytes))}}))
	_, err := s.Wait(t.Context(), "b")
	require.ErrorIs(t, err, abi.ErrTaskNotFound)
	s.tasks.end(t, "a", exitOf("a"))
	require.Equal(t, exitOf("a"), <-got)
}

func TestAWaitForAStartOfAnotherThatFailsEnds(t *testing.T) {
	s := serve(t, false)
	s.tasks.refuse = make(chan struct{})
	started := make(chan error, 1)
	go func() { _, err := s.server.startWorkload(t.Context(), &workload.Spec{ID: "a"}); started <- err }()
	require.Eventually(t, func() bool { return s.server.records.find("a") != nil }, time.Minute, time.Millisecond)
	got := s.waiting(t, "a")
	s.listens(t)
	f := s.following()
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.runs) == 1
	}, time.Minute, time.Millisecond, "it was found while it starts")
	close(s.tasks.refuse)
	require.Error(t, <-started)
	require.Nil(t, <-got)
}

func TestAWaitGoesOnWithTheNextSupervisor(t *testing.T) {
	s := serve(t, false)
	s.start(t, "a")
	s.start(t, "b")
	a, b := s.waiting(t, "a"), s.waiting(t, "b")
	s.listens(t)
	first, written := s.server, make(chan struct{})
	s.Launch = func(context.Context) error { <-written; s.begin(t); return nil }
	s.end()
	s.tasks.end(t, "a", exitOf("a"))
	require.Eventually(t, func() bool {
		_, err := os.Stat(first.results.path("a"))
		return err == nil
	}, time.Minute, time.Millisecond)
	close(written)
	require.Equal(t, exitOf("a"), <-a)
	require.Nil(t, <-b, "that died with its supervisor")
	s.tasks.end(t, "b", killed)
	first.Drain()
}

func TestASupervisorThatTellsOfNoEndsIsAskedForEach(t *testing.T) {
	s := serve(t, false)
	s.end()
	l, err := Listen(Socket(s.dir))
	require.NoError(t, err)
	routes := s.server.routes(&commands{ctx: t.Context()})
	earlier := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/"+opEnds || r.URL.Path == "/v1/"+opResult {
			http.NotFound(w, r)
			return
		}
		routes.ServeHTTP(w, r)
	}), BaseContext: func(net.Listener) context.Context { return t.Context() }, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- earlier.Serve(l) }()
	s.Launch = func(context.Context) error { return errors.New("nobody is to be started") }
	s.end = func() { require.NoError(t, earlier.Close()); require.ErrorIs(t, <-ended, http.ErrServerClosed) }
	s.start(t, "a")
	got := s.waiting(t, "a")
	s.tasks.end(t, "a", exitOf("a"))
	require.Equal(t, exitOf("a"), <-got)
	require.Nil(t, s.following())
}

func TestAClosedClientHearsOfNothing(t *testing.T) {
	s := serve(t, false)
	s.start(t, "a")
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() { _, err := s.Wait(ctx, "a"); waited <- err }()
	s.listens(t)
	cancel()
	require.ErrorIs(t, <-waited, context.Canceled)
	require.NoError(t, s.Close())
	_, err := s.Wait(t.Context(), "a")
	require.ErrorIs(t, err, errClosed)
}
