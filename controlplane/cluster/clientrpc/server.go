package clientrpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// The bounds of what is answered at once. What is beyond them is refused, with HTTP's status for
// too many requests.
const (
	// MaxStreams is how many streams of logs, files, commands and so on are served.
	MaxStreams = 64
	// MaxCalls is how many requests are being answered, with those whose answers are being
	// written.
	MaxCalls = 64
)

// slowest is how long one frame may take to be read at the other end: as long as a person
// holds a terminal's output. The stream ends then.
const slowest = 10 * time.Minute

// Node is what servers ask of a node. An allocation that does not run here is errdefs.NotFound.
// All methods may be called concurrently.
type Node interface {
	clientapi.Node
	Allocation(allocID string) (*structs.Allocation, error)
	AllocationState(allocID string) (*structs.AllocationState, error)
	// TaskEnd is a channel that is closed once a task has ended for good, or ctx is done.
	TaskEnd(ctx context.Context, allocID, task string) <-chan struct{}
}

// Volumes makes and removes dynamic host volumes, durably: they are there again after a restart.
// Doing either again is as doing it once. It bounds how long that takes.
type Volumes interface {
	CreateVolume(ctx context.Context, v *nomad.HostVolume) (structs.MadeVolume, error)
	DeleteVolume(ctx context.Context, v *nomad.HostVolume) error
}

// Identity is the node's own, which its servers sign.
type Identity interface {
	// Token is the signed token; empty: there is none.
	Token() string
	// Renew has the next heartbeat ask for another one.
	Renew()
}

// Config configures what is answered. Logger, Node and NodeID are required; what of the rest is
// not there is answered so.
type Config struct {
	Logger   hclog.Logger
	Node     Node
	NodeID   string
	Volumes  Volumes
	Identity Identity
	// Logs is where the agent's log can be followed.
	Logs clientapi.LogSinks
	// Machine describes the machine.
	Machine func() clientapi.Machine
	// Journal reads the machine's journal.
	Journal clientapi.OpenJournal
	// Debug shows what the agent itself is doing.
	Debug bool
	// MayExec decides whether the owner of a token may run commands in a task of a namespace that
	// is not isolated from the machine, which servers leave to the node. nil: whoever may run
	// commands at all may.
	MayExec func(ctx context.Context, token, namespace string) error
}

// server answers; it has no state but what is under way.
type server struct {
	Config
	calls    map[string]call
	methods  map[string]stream
	journals *clientapi.Journals
	slowest  time.Duration
	requests chan struct{} // one for each that is being answered; MaxCalls
	serving  chan struct{} // one for each stream; MaxStreams
}

// New returns the answers of a node. They end with the contexts that they are called with.
func New(cfg Config) *wire.Handler { return newServer(cfg).handler() }

func newServer(cfg Config) *server {
	s := &server{
		Config: cfg, journals: clientapi.NewJournals(cfg.Journal), slowest: slowest,
		requests: make(chan struct{}, MaxCalls), serving: make(chan struct{}, MaxStreams),
	}
	s.calls = s.allCalls()
	s.methods = map[string]stream{
		"FileSystem.Logs":     streaming(s.logs),
		"FileSystem.Stream":   streaming(s.streamFile),
		"Allocations.Exec":    streaming(s.exec),
		"Agent.Monitor":       streaming(s.monitor),
		"Agent.MonitorExport": streaming(s.monitorExport),
	}
	return s
}

func (s *server) handler() *wire.Handler {
	return &wire.Handler{
		Call:    s.request,
		Streams: func(method string) bool { return s.methods[method] != nil },
		Stream:  s.serve,
	}
}

// A call answers a request, and a stream a streaming one, both with arguments that are still to
// be decoded.
type (
	call   func(ctx context.Context, decode func(any) error) (reply any, err error)
	stream func(ctx context.Context, decode func(any) error, st *conn) error
)

// calling is a call with arguments of a type.
func calling[A any](answer func(context.Context, *A) (any, error)) call {
	return func(ctx context.Context, decode func(any) error) (any, error) {
		var args A
		if err := decode(&args); err != nil {
			return nil, invalid("the arguments are not understood: %v", err)
		}
		return answer(ctx, &args)
	}
}

// streaming is a stream with arguments of a type.
func streaming[A any](serve func(context.Context, *A, *conn) error) stream {
	return func(ctx context.Context, decode func(any) error, st *conn) error {
		var args A
		if err := decode(&args); err != nil {
			return invalid("the arguments are not understood: %v", err)
		}
		return serve(ctx, &args, st)
	}
}

var errBusy = &wire.CodedError{Code: http.StatusTooManyRequests, Text: "the node answers as much at once as it can: try again later"}

// request answers a request that finds a place, which it has until its answer is written.
func (s *server) request(ctx context.Context, method string, decode func(any) error) (any, error) {
	select {
	case s.requests <- struct{}{}:
	default:
		return nil, errBusy
	}
	reply, err := s.answer(ctx, method, decode)
	return wire.Held{Reply: reply, Release: func() { <-s.requests }}, err
}

// answer answers a request.
func (s *server) answer(ctx context.Context, method string, decode func(any) error) (reply any, err error) {
	defer s.recovered(method, &err)
	answer := s.calls[method]
	if answer == nil {
		return nil, wire.ErrNoMethod
	}
	reply, err = answer(ctx, decode)
	return reply, answered(err)
}

// serve answers a streaming request until the other side is gone.
func (s *server) serve(ctx context.Context, method string, decode func(any) error, st *wire.Stream) (err error) {
	defer s.recovered(method, &err)
	select {
	case s.serving <- struct{}{}:
		defer func() { <-s.serving }()
	default:
		return errBusy
	}
	return coded(s.methods[method](ctx, decode, &conn{Stream: st, slowest: s.slowest}))
}

// recovered, deferred, makes a panic of ours an error, so that no request can end the agent.
func (s *server) recovered(method string, err *error) {
	if p := recover(); p != nil {
		s.Logger.Error("a request of a server panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
		*err = fmt.Errorf("internal error: %v", p)
	}
}

// conn is a stream whose other side has to read.
type conn struct {
	*wire.Stream
	slowest time.Duration
}

// Send is that of the stream, but closes it when it takes too long.
func (c *conn) Send(payload []byte) error {
	tooSlow := time.AfterFunc(c.slowest, c.Close)
	defer tooSlow.Stop()
	return c.Stream.Send(payload)
}

// statuses are HTTP's for the classes of errors, as the local API answers them.
var statuses = map[errdefs.Class]int{
	errdefs.NotFound:           http.StatusNotFound,
	errdefs.InvalidArgument:    http.StatusBadRequest,
	errdefs.FailedPrecondition: http.StatusBadRequest,
	errdefs.Unimplemented:      http.StatusBadRequest,
	errdefs.PermissionDenied:   http.StatusForbidden,
	errdefs.AlreadyExists:      http.StatusConflict,
	errdefs.ResourceExhausted:  http.StatusTooManyRequests,
	errdefs.Unavailable:        http.StatusServiceUnavailable,
}

// coded gives an error with a class its status, with which the server answers who asked it.
func coded(err error) error {
	status, known := statuses[errdefs.ClassOf(err)]
	var already *wire.CodedError
	if err == nil || !known || errors.As(err, &already) {
		return err
	}
	return &wire.CodedError{Code: status, Text: err.Error()}
}

// knownTexts are what servers look for in the answer to a request, to know what was not found.
// They take the rest of it as it is, so that it has no status of its own.
var knownTexts = []string{"Unknown allocation", "Unknown node", "no such file or directory"}

// answered is coded, but for what servers know by its text.
func answered(err error) error {
	if errors.Is(err, errdefs.NotFound) && slices.ContainsFunc(knownTexts, func(text string) bool { return strings.Contains(err.Error(), text) }) {
		return errors.New(err.Error())
	}
	return coded(err)
}

func invalid(format string, args ...any) error {
	return errdefs.New(errdefs.InvalidArgument, format, args...)
}

// unknownAllocation has the text that servers and their tools look for.
func unknownAllocation(id string) error {
	return errdefs.New(errdefs.NotFound, "Unknown allocation %q", id)
}
