package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/failpoint"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// maxModuleBytes bounds a module that is sent, as the engine does.
const maxModuleBytes = 64 << 20

// maxRequestBytes bounds every other request.
const maxRequestBytes = 4 << 20

// ServerConfig is what a server stands on. All fields but MayReplace are required.
type ServerConfig struct {
	Logger    hclog.Logger
	Workloads workload.Runtime
	// Dir is where results are written down until they are acknowledged.
	Dir     string
	Version string
	// IdleTime is how long a server stays that has neither workloads nor clients.
	IdleTime time.Duration
	// MayReplace refuses to be replaced by a program for now; nil: it never is.
	MayReplace func(program string) error
}

// Server owns workloads for clients on a socket. See [Server.Serve].
type Server struct {
	ServerConfig
	results *results
	modules *modules
	idle    *idle
	program string // see [ProgramID]

	replacing chan string // of capacity 1: the first wish counts

	mu        sync.Mutex
	following map[string]chan struct{} // closed when nothing more is written of a workload; nil: it is starting
}

// NewServer returns a server with the results that an earlier one wrote down.
func NewServer(cfg ServerConfig) (*Server, error) {
	results, err := openResults(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("supervisor: results: %w", err)
	}
	s := &Server{
		ServerConfig: cfg, results: results, modules: newModules(), idle: newIdle(cfg.IdleTime),
		replacing: make(chan string, 1), following: map[string]chan struct{}{},
	}
	if s.program, err = ProgramID("/proc/self/exe"); err != nil {
		return nil, fmt.Errorf("supervisor: %w", err)
	}
	return s, nil
}

// Serve answers on a listener until ctx is done, or nobody needs the server any more.
// The caller then ends the workloads. A [Replacement] is its error when another program
// is to go on with them.
func (s *Server) Serve(ctx context.Context, l net.Listener) error { //nolint:contextcheck // what is being answered is cut off by cause, not by ctx
	life, end := context.WithCancel(ctx)
	running := &commands{life: life}
	defer running.gate.Close()
	defer end()
	answers, cut := context.WithCancelCause(context.Background())
	defer cut(nil)
	web := &http.Server{
		Handler:           s.routes(running),
		BaseContext:       func(net.Listener) context.Context { return answers },
		ConnState:         s.idle.connection,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          s.Logger.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Warn}),
	}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(ownersOnly{l}) }()
	var next *Replacement
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	case <-s.idle.expired:
	case program := <-s.replacing:
		cut(errReplaced)
		next = &Replacement{s.quiet(ctx, web, program)}
	}
	err := web.Close()
	if serveErr := <-ended; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	if next != nil {
		return next
	}
	return err
}

// routes are the operations.
func (s *Server) routes(running *commands) *http.ServeMux {
	mux := http.NewServeMux()
	for op, serve := range map[string]func(context.Context, *request) (any, error){
		opHello:   s.hello,
		opWait:    s.wait,
		opStop:    s.stop,
		opSignal:  s.signal,
		opStats:   s.stats,
		opInspect: s.inspect,
		opList:    s.list,
		opDestroy: s.destroy,
		opReplace: s.replace,
	} {
		mux.HandleFunc("POST /v1/"+op, answering(serve))
	}
	mux.HandleFunc("POST /v1/"+opModule, s.module)
	mux.HandleFunc("POST /v1/"+opStart, s.start)
	mux.HandleFunc("POST /v1/"+opExec, func(w http.ResponseWriter, r *http.Request) { s.exec(running, w, r) })
	return mux
}

// quiet waits until nothing is being answered, and returns the program that may go on
// then: none when something is answered still. Whoever is cut off asks again.
func (s *Server) quiet(ctx context.Context, web *http.Server, program string) string {
	grace, cancel := context.WithTimeout(ctx, replaceTime)
	defer cancel()
	if err := web.Shutdown(grace); err != nil {
		s.Logger.Warn("the supervisor is not replaced: something is being answered still", "error", err)
		return ""
	}
	return program
}

// answering makes an HTTP handler of an operation.
func answering(serve func(context.Context, *request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var req request
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequestBytes)).Decode(&req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		failpoint.Here("asked", r.URL.Path)
		answer, err := serve(r.Context(), &req)
		failpoint.Here("answering", r.URL.Path)
		if err != nil && errors.Is(context.Cause(r.Context()), errReplaced) {
			err = errReplaced
		}
		if err != nil {
			writeError(w, err)
			return
		}
		_ = json.NewEncoder(w).Encode(answer) // a client that has gone hears nothing
	}
}

func (s *Server) hello(context.Context, *request) (any, error) {
	return Hello{Protocol: Protocol, Version: s.Version, Program: s.program, PID: os.Getpid()}, nil
}

func (s *Server) module(w http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxModuleBytes))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.modules.add(content)
}

func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	answering(func(ctx context.Context, req *request) (any, error) {
		if req.Spec == nil {
			return nil, abi.NewError(abi.InvalidArgument, "a start without a spec")
		}
		if req.Spec.WASI != nil {
			content, ok := s.modules.find(req.Module)
			if !ok {
				w.WriteHeader(statusUnknownModule)
				return struct{}{}, nil
			}
			req.Spec.WASI.Module = content
		}
		// An agent that dies meanwhile finds the workload; one that gives up says so.
		ctx = context.WithoutCancel(ctx)
		return struct{}{}, s.startWorkload(ctx, req.Spec)
	})(w, r)
}

// startWorkload starts a workload and writes its result down when it ends.
func (s *Server) startWorkload(ctx context.Context, spec *workload.Spec) error {
	if !s.claim(spec.ID) {
		return abi.NewError(abi.AlreadyExists, fmt.Sprintf("workload %s exists", spec.ID))
	}
	if err := s.Workloads.Start(ctx, spec); err != nil {
		s.disclaim(spec.ID, nil)
		return err
	}
	s.own(spec.ID) //nolint:contextcheck // a workload outlives its start
	return nil
}

// claim takes an ID for a workload that is about to start. It is free again once nothing
// more is written of the one before.
func (s *Server) claim(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.following[id]; taken || s.results.find(id) != nil {
		return false
	}
	s.following[id] = nil
	return true
}

// disclaim frees an ID, unless it is another workload's by now.
func (s *Server) disclaim(id string, done chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.following[id] == done {
		delete(s.following, id)
	}
}

// Adopt makes workloads the server's that were started by the program before this one.
func (s *Server) Adopt(ids []string) {
	for _, id := range ids {
		s.own(id)
	}
}

// own writes a workload's result down when it ends, and stays until then.
func (s *Server) own(id string) {
	s.idle.began()
	done := make(chan struct{})
	s.mu.Lock()
	s.following[id] = done
	s.mu.Unlock()
	go func() {
		defer s.idle.ended()
		defer close(done)
		if !s.follow(id) {
			s.disclaim(id, done)
		}
	}()
}

// follow writes a workload's result down once there is one. One that is destroyed
// before has none: nobody wants to know.
func (s *Server) follow(id string) (ended bool) {
	ctx := context.Background()
	if _, err := s.Workloads.Wait(ctx, id); err != nil {
		return false
	}
	status, err := s.Workloads.Inspect(ctx, id)
	if err != nil {
		return false
	}
	if err := s.results.add(status); err != nil {
		s.Logger.Error("a result could not be written down", "workload", id, "error", err)
	}
	return true
}

// followed returns what is closed when nothing more is written of a workload; nil: it
// has not started.
func (s *Server) followed(id string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.following[id]
}

// Drain waits until what has ended is written down. The workloads must have been ended.
func (s *Server) Drain() { s.DrainEnded(nil) }

func (s *Server) wait(ctx context.Context, req *request) (any, error) {
	if r := s.results.find(req.ID); r != nil {
		return r.Exit, nil
	}
	exit, err := s.Workloads.Wait(ctx, req.ID)
	if err != nil {
		return nil, err
	}
	return s.durable(ctx, req.ID, exit)
}

// durable returns a result once it is written down: what a client was told holds.
func (s *Server) durable(ctx context.Context, id string, exit *structs.ExitResult) (*structs.ExitResult, error) {
	written := s.results.written(id)
	if _, err := s.Workloads.Inspect(ctx, id); err != nil {
		s.results.giveUp(id) // it was destroyed: its result may have been removed already
	}
	select {
	case <-written:
		return exit, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Server) stop(ctx context.Context, req *request) (any, error) {
	if s.results.find(req.ID) != nil {
		return struct{}{}, nil
	}
	return struct{}{}, s.Workloads.Stop(ctx, req.ID, req.Signal, req.Timeout)
}

func (s *Server) signal(ctx context.Context, req *request) (any, error) {
	err := s.Workloads.Signal(ctx, req.ID, req.Signal)
	if errors.Is(err, abi.ErrTaskNotFound) && s.results.find(req.ID) != nil {
		err = abi.NewError(abi.FailedPrecondition, fmt.Sprintf("workload %s has ended", req.ID))
	}
	return struct{}{}, err
}

func (s *Server) stats(ctx context.Context, req *request) (any, error) {
	return s.Workloads.Stats(ctx, req.ID)
}

func (s *Server) inspect(ctx context.Context, req *request) (any, error) {
	if r := s.results.find(req.ID); r != nil {
		return r, nil
	}
	return s.Workloads.Inspect(ctx, req.ID)
}

// list returns what this server runs, behind what an earlier one wrote down.
func (s *Server) list(ctx context.Context, _ *request) (any, error) {
	running, err := s.Workloads.List(ctx)
	if err != nil {
		return nil, err
	}
	return append(s.results.except(running), running...), nil
}

func (s *Server) destroy(ctx context.Context, req *request) (any, error) {
	for {
		done := s.followed(req.ID)
		if err := s.Workloads.Destroy(ctx, req.ID); err != nil {
			return nil, err
		}
		if s.followed(req.ID) != done {
			continue // it was only starting, or this is another one by now
		}
		if done != nil {
			<-done // else its result would be written down after it was removed
			defer s.disclaim(req.ID, done)
		}
		return struct{}{}, s.results.remove(req.ID)
	}
}
