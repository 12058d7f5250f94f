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
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/failpoint"
	"github.com/wasmnode/wasmnode/workload"
)

// maxModuleBytes bounds a module that is sent, as the engine does.
const maxModuleBytes = 64 << 20

// maxRequestBytes bounds every other request.
const maxRequestBytes = 4 << 20

// ServerConfig configures a [Server]. All fields but MayReplace and Return are required.
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
	// Return is [Home.Return], which is called now and then; nil: a socket that is removed
	// stays so.
	Return func() (net.Listener, error)
}

// Server owns workloads for clients on a socket. See [Server.Serve].
type Server struct {
	ServerConfig
	results results
	records *records
	modules *modules
	idle    *idle
	owner   owner
	program string // see programID

	replacing chan string   // of capacity 1: the first program that is asked for counts
	drained   chan struct{} // closed when the server is used no more
}

// NewServer returns a server with the results that an earlier one wrote down.
func NewServer(cfg ServerConfig) (*Server, error) {
	results, ended, err := openResults(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("supervisor: results: %w", err)
	}
	s := &Server{
		ServerConfig: cfg, results: results, records: newRecords(ended), modules: newModules(), idle: newIdle(cfg.IdleTime),
		replacing: make(chan string, 1),
		drained:   make(chan struct{}),
	}
	if s.program, err = programID("/proc/self/exe"); err != nil {
		return nil, fmt.Errorf("supervisor: %w", err)
	}
	return s, nil
}

// Serve answers on a listener until ctx is done, or the server has had neither workloads
// nor clients for its idle time.
// The caller then ends the workloads. A [Replacement] is its error when another program
// is to go on with them.
func (s *Server) Serve(ctx context.Context, l net.Listener) error { //nolint:contextcheck // what is being answered is cut off by cause, not by ctx
	commandsCtx, end := context.WithCancel(ctx)
	running := &commands{ctx: commandsCtx}
	defer running.gate.Close()
	defer end()
	answers, cut := context.WithCancelCause(context.Background())
	defer cut(nil)
	web := &http.Server{
		Handler:           s.routes(running),
		BaseContext:       func(net.Listener) context.Context { return answers },
		ConnState:         s.idle.connection,
		ConnContext:       withPeers(),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          s.Logger.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Warn}),
	}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(ownersOnly{l}) }()
	if s.Return != nil {
		done := make(chan struct{})
		stays := make(chan struct{})
		go func() { defer close(stays); s.stay(done, web) }()
		defer func() { close(done); _ = web.Close(); <-stays }()
	}
	var next *Replacement
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	case <-s.idle.expired:
	case program := <-s.replacing:
		cut(errReplaced)
		next = &Replacement{s.drainRequests(ctx, web, program)}
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
		opResult:  s.result,
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
	mux.HandleFunc("POST /v1/"+opEnds, s.ends)
	for _, op := range []string{opStart, opStartWhole, opStartBeside} {
		mux.HandleFunc("POST /v1/"+op, s.start)
	}
	for _, op := range []string{opExec, opRun} {
		mux.HandleFunc("POST /v1/"+op, func(w http.ResponseWriter, r *http.Request) { s.exec(running, w, r) })
	}
	return mux
}

// drainRequests waits until nothing is being answered, and returns the program that may go on
// then: none when something is answered still. A client that is cut off asks again.
func (s *Server) drainRequests(ctx context.Context, web *http.Server, program string) string {
	grace, cancel := context.WithTimeout(ctx, replaceTimeout)
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
		_ = json.NewEncoder(w).Encode(answer) // the client may have gone
	}
}

func (s *Server) hello(ctx context.Context, req *request) (any, error) {
	s.owner.hello(peerIn(ctx), req.Owns)
	return Hello{Protocol: protocol, Version: s.Version, Program: s.program, PID: os.Getpid()}, nil
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
			req.Spec.WASI.Module, req.Spec.WASI.Digest = content, req.Module // as it was computed here
		}
		// An agent that dies meanwhile finds the workload; one that gives up destroys it.
		ctx = context.WithoutCancel(ctx)
		return s.startWorkload(ctx, req.Spec)
	})(w, r)
}

// startWorkload starts a workload and writes its result down when it ends.
func (s *Server) startWorkload(ctx context.Context, spec *workload.Spec) (found, error) {
	var r *record
	err := s.owner.does(peerIn(ctx), func() (err error) {
		r, err = s.records.add(spec.ID, spec.Beside, stateStarting)
		return err
	})
	if err != nil {
		s.Logger.Info("a workload is not started", "workload", spec.ID, "reason", err)
		return found{}, err
	}
	if err := s.Workloads.Start(ctx, spec); err != nil {
		s.records.step(r, eventNotStarted)
		return found{}, err
	}
	s.records.step(r, eventStarted)
	s.follow(r) //nolint:contextcheck // a workload outlives its start
	return found{Run: r.run}, nil
}

// Adopt makes workloads the server's that were started by the program before this one.
func (s *Server) Adopt(specs []*workload.Spec) {
	for _, spec := range specs {
		if r := s.records.adopt(spec.ID, spec.Beside); r != nil {
			s.follow(r)
		}
	}
	for _, spec := range specs {
		if s.records.result(spec.Beside) != nil {
			s.endBeside(spec.Beside) // which that program did not come to
		}
	}
}

// follow writes a workload's result down when it ends. The server stays until that is done,
// or the workload was destroyed.
func (s *Server) follow(r *record) {
	s.idle.began()
	go func() {
		defer s.idle.ended()
		s.awaitEnd(r)
		for s.records.isUnwritten(r) {
			select {
			case <-time.After(rewriteTick):
				s.rewrite()
			case <-s.drained:
				return
			}
		}
	}()
}

// rewriteTick is how often a disk that did not take a result is tried again.
const rewriteTick = time.Second

// awaitEnd writes a workload's result down once there is one. One that is destroyed
// before has none.
func (s *Server) awaitEnd(r *record) {
	defer s.endBeside(r.id)
	ctx := context.Background()
	exit, err := s.Workloads.Wait(ctx, r.id)
	if err != nil {
		s.records.endWithout(r, nil)
		return
	}
	result, err := s.Workloads.Inspect(ctx, r.id)
	if err != nil {
		s.records.endWithout(r, exit)
		return
	}
	err = s.results.write(result)
	if err != nil {
		s.Logger.Error("a result could not be written down", "workload", r.id, "error", err)
	} else {
		s.rewrite()
	}
	s.records.end(r, result, err == nil)
}

// rewrite writes what the disk did not take before, until it fails again.
func (s *Server) rewrite() {
	for {
		r := s.records.rewrite()
		if r == nil {
			return
		}
		err := s.results.write(r.result)
		s.records.rewritten(r, err == nil)
		if err != nil {
			return
		}
	}
}

// Drain waits until what has ended is written down, as far as the disk takes it. The
// workloads must have been ended, and the server must not be used any more.
func (s *Server) Drain() {
	if err := s.DrainEnded(nil); err != nil {
		s.Logger.Error("results are lost", "error", err)
	}
	close(s.drained)
}

// wait returns a result once it is written down: a client may rely on what it was answered. The first
// agents ask it; later ones listen, see ends.
func (s *Server) wait(ctx context.Context, req *request) (any, error) {
	r := s.records.find(req.ID)
	if r == nil {
		return nil, notFound(req.ID)
	}
	return s.records.wait(ctx, r)
}

func (s *Server) stop(ctx context.Context, req *request) (any, error) {
	if s.records.result(req.ID) != nil {
		return struct{}{}, nil
	}
	return struct{}{}, s.Workloads.Stop(ctx, req.ID, req.Signal, req.Timeout)
}

func (s *Server) signal(ctx context.Context, req *request) (any, error) {
	err := s.Workloads.Signal(ctx, req.ID, req.Signal)
	if errors.Is(err, abi.ErrTaskNotFound) && s.records.result(req.ID) != nil {
		err = abi.NewError(abi.FailedPrecondition, fmt.Sprintf("workload %s has ended", req.ID))
	}
	return struct{}{}, err
}

func (s *Server) stats(ctx context.Context, req *request) (any, error) {
	return s.Workloads.Stats(ctx, req.ID)
}

func (s *Server) inspect(ctx context.Context, req *request) (any, error) {
	if r := s.records.result(req.ID); r != nil {
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
	return append(s.records.resultsBut(running), running...), nil
}

// destroy destroys a workload after those beside it: while it is there, they are found with it.
func (s *Server) destroy(ctx context.Context, req *request) (any, error) {
	for _, r := range s.records.standBeside(req.ID) {
		if err := s.destroyOne(ctx, r); err != nil {
			return nil, err
		}
	}
	r := s.records.find(req.ID)
	if r == nil {
		return struct{}{}, nil // destroying is idempotent
	}
	return struct{}{}, s.destroyOne(ctx, r)
}

func (s *Server) destroyOne(ctx context.Context, r *record) error {
	for {
		before, changed := s.records.look(r)
		if before == stateGone {
			return nil
		}
		if err := s.Workloads.Destroy(ctx, r.id); err != nil {
			return err
		}
		// One that was only starting may not have been there to be destroyed.
		if before != stateStarting && s.records.step(r, eventRemove) {
			return s.remove(r)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// endBeside kills what stands beside a workload that has ended. A start that is under way
// may not be there yet.
func (s *Server) endBeside(id string) {
	ctx := context.Background()
	for _, r := range s.records.standBeside(id) {
		for {
			before, changed := s.records.look(r)
			if before > stateRunning {
				break
			}
			if err := s.Workloads.Stop(ctx, r.id, "SIGKILL", 0); err != nil && !errors.Is(err, abi.ErrTaskNotFound) {
				s.Logger.Error("a workload stays whose main one has ended", "id", r.id, "error", err)
			}
			if before == stateRunning {
				break
			}
			<-changed
		}
	}
}

// remove removes the result of a workload that is being removed: it was acknowledged.
func (s *Server) remove(r *record) error {
	if err := s.results.remove(r.id); err != nil {
		s.records.step(r, eventNotRemoved)
		return err
	}
	s.records.step(r, eventRemoved)
	return nil
}
