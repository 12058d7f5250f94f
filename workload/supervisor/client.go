package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/failpoint"
	"github.com/wasmnode/wasmnode/workload"
)

// ClientConfig configures a [Client]. All fields but Program are required.
type ClientConfig struct {
	Logger hclog.Logger
	// Socket is where the supervisor answers.
	Socket string
	// Launch starts the supervisor, and returns when it answers or why it does not.
	// It is called when no supervisor answers, by one call at a time, and again when it fails.
	Launch func(ctx context.Context) error
	// Isolation is [workload.Runtime.CheckIsolation], which is answered here, since it
	// must not start a supervisor: that is to be this program on this machine.
	Isolation func(workload.Isolation) error
	// Program is the path of the program that a supervisor of another one is asked to go
	// on as; empty: none is.
	Program string
	// Owns has no earlier client's start begin any more once this one is known: what that started
	// is this one's. There is one such client at a time.
	Owns bool
}

// Client is a [workload.Runtime] whose workloads belong to a supervisor process,
// which it starts when it is needed. When that process dies, its workloads die with
// it: they are NOT_FOUND from then on, and the next start begins a new one.
type Client struct {
	ClientConfig
	http *http.Client

	launching chan struct{} // of capacity 1: holds a token while a call launches
	mu        sync.Mutex
	accepted  bool // the supervisor that answers has our protocol version
	pid       int  // of the one that was accepted last
	closed    bool
	follower  *follower // nil: there was none yet

	beginning chan struct{} // of capacity 1: holds a token while a call begins a follower
	reading   sync.WaitGroup
}

var _ workload.Runtime = (*Client)(nil)

// NewClient returns a client. Nothing is started yet.
func NewClient(cfg ClientConfig) *Client {
	c := &Client{ClientConfig: cfg, launching: make(chan struct{}, 1), beginning: make(chan struct{}, 1)}
	c.http = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, cfg.Socket) },
		// The idle ones are for the next calls, and the last one shows that the agent is there.
		MaxIdleConnsPerHost: 16,
		DisableCompression:  true,
	}}
	return c
}

// Close lets go of the supervisor, which keeps the workloads. Nothing is to wait for one any more.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	if c.follower != nil {
		c.follower.cancel()
	}
	c.mu.Unlock()
	c.reading.Wait()
	c.http.CloseIdleConnections()
	return nil
}

// Answers reports whether a supervisor is there, also one that does not answer yet. It starts
// none.
func (c *Client) Answers(ctx context.Context) bool {
	if _, err := c.hello(ctx); err == nil {
		return true
	}
	return !errors.Is(c.awaitReturn(ctx), errNobody)
}

// PID is the process of the supervisor that this client used last, which may have ended; 0: it
// has used none.
func (c *Client) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pid
}

// CheckIsolation implements [workload.Runtime].
func (c *Client) CheckIsolation(isolation workload.Isolation) error { return c.Isolation(isolation) }

// Start implements [workload.Runtime]. A start whose supervisor dies fails with
// UNAVAILABLE and [workload.ErrLost], and the workload is not there.
func (c *Client) Start(ctx context.Context, spec *workload.Spec) error {
	req := &request{Spec: spec}
	var module []byte
	if spec.WASI != nil {
		bare, wasi := *spec, *spec.WASI
		module, wasi.Module, bare.WASI = wasi.Module, nil, &wasi
		req.Spec, req.Module = &bare, wasi.Digest
		if req.Module == "" {
			req.Module = digestOf(module)
		}
	}
	f := c.following()
	var heard *ending
	first := false
	if f != nil { // what ends at once is heard of before the start is answered
		heard, first = f.expect(spec.ID)
	}
	is, err := c.start(ctx, spec, req, module)
	switch {
	case !first:
	case err == nil:
		f.found(heard, is)
		if spec.Beside != "" {
			f.startedBeside(spec.ID, spec.Beside)
		}
	default:
		f.drop(heard)
	}
	if err != nil && ctx.Err() != nil {
		c.abandonStart(ctx, spec.ID)
	}
	return err
}

// start starts a workload, with its module where the supervisor does not have that.
func (c *Client) start(ctx context.Context, spec *workload.Spec, req *request, module []byte) (is found, err error) {
	op := startOf(spec)
	err = c.call(ctx, op, req, &is)
	for range maxModuleSends {
		if !errors.Is(err, errUnknownModule) {
			break
		}
		if err = c.send(ctx, opModule, module, nil); err == nil {
			err = c.call(ctx, op, req, &is)
		}
	}
	return is, err
}

// startOf is the operation that starts a spec: that of later supervisors for what an earlier
// one would leave out.
func startOf(spec *workload.Spec) string {
	p, w := spec.Process, spec.WASI
	switch {
	case spec.Beside != "":
		return opStartBeside
	case p != nil && (p.Network != "" || !p.Bounds.None() || p.Stdin != nil),
		p != nil && p.Isolated != nil && p.Isolated.AddCapabilities|p.Isolated.DropCapabilities != 0,
		w != nil && (len(w.Listen) > 0 || w.Signals || w.Stdin != nil):
		return opStartWhole
	}
	return opStart
}

// maxModuleSends is how often a start sends its module: once for each supervisor that it
// meets, if they die on the way.
const maxModuleSends = 3

// abandonTimeout bounds the end of an abandoned start.
const abandonTimeout = 10 * time.Second

// abandonStart ends an abandoned start: it goes on otherwise.
func (c *Client) abandonStart(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	if err := c.Destroy(ctx, id); err != nil {
		c.Logger.Warn("an abandoned start may continue", "workload", id, "error", err)
	}
}

// Stop implements [workload.Runtime].
func (c *Client) Stop(ctx context.Context, id, signal string, timeout time.Duration) error {
	return c.ask(ctx, opStop, &request{ID: id, Signal: signal, Timeout: timeout}, nil)
}

// Signal implements [workload.Runtime].
func (c *Client) Signal(ctx context.Context, id, signal string) error {
	return c.call(ctx, opSignal, &request{ID: id, Signal: signal}, nil)
}

// Stats implements [workload.Runtime].
func (c *Client) Stats(ctx context.Context, id string) (*workload.Stats, error) {
	var stats workload.Stats
	if err := c.ask(ctx, opStats, &request{ID: id}, &stats); err != nil {
		return nil, err
	}
	return &stats, nil
}

// Inspect implements [workload.Runtime].
func (c *Client) Inspect(ctx context.Context, id string) (*workload.Status, error) {
	var status workload.Status
	if err := c.ask(ctx, opInspect, &request{ID: id}, &status); err != nil {
		return nil, err
	}
	return &status, nil
}

// List implements [workload.Runtime].
func (c *Client) List(ctx context.Context) ([]*workload.Status, error) {
	var list []*workload.Status
	if err := c.ask(ctx, opList, &request{}, &list); err != nil {
		return nil, err
	}
	return list, nil
}

// Destroy implements [workload.Runtime].
func (c *Client) Destroy(ctx context.Context, id string) error {
	err := c.ask(ctx, opDestroy, &request{ID: id}, nil)
	if f := c.following(); f != nil && err == nil {
		f.forget(id)
	}
	return err
}

// errUnknownModule: the supervisor has not seen the module yet.
var errUnknownModule = errors.New("the supervisor does not have the module")

// ask calls an operation that can be asked twice: when the supervisor dies meanwhile,
// the next one is asked.
func (c *Client) ask(ctx context.Context, op string, req *request, answer any) error {
	err := c.call(ctx, op, req, answer)
	if abi.CodeOf(err) == abi.Unavailable && ctx.Err() == nil {
		return c.call(ctx, op, req, answer)
	}
	return err
}

func (c *Client) call(ctx context.Context, op string, req *request, answer any) error {
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	return c.send(ctx, op, body, answer)
}

// send asks the supervisor that is there, or a new one.
func (c *Client) send(ctx context.Context, op string, body []byte, answer any) error {
	if err := c.handshake(ctx); err != nil {
		return err
	}
	err := c.post(ctx, op, body, answer)
	var lost lostError
	if !errors.As(err, &lost) || lost.asked {
		return err
	}
	// It has ended since the handshake and was not asked: the next one may be.
	if err := c.handshake(ctx); err != nil {
		return err
	}
	return c.post(ctx, op, body, answer)
}

// lostError is the error when no supervisor answers.
type lostError struct {
	cause error
	asked bool // it may have done what it was asked; false: nobody was there
}

func (e lostError) Error() string        { return e.cause.Error() }
func (e lostError) Unwrap() error        { return e.cause }
func (e lostError) Is(target error) bool { return e.asked && target == workload.ErrLost }

func (c *Client) post(ctx context.Context, op string, body []byte, answer any) error {
	resp, err := c.open(ctx, op, body)
	if err != nil {
		return err
	}
	defer drop(resp)
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return c.lost(ctx, err)
	}
	return nil
}

// open asks, and returns an answer that is no error. The caller closes it.
func (c *Client) open(ctx context.Context, op string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://supervisor/v1/"+op, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	failpoint.Here("call", op)
	resp, err := c.http.Do(req)
	failpoint.Here("answer", op)
	switch {
	case err != nil:
		return nil, c.lost(ctx, err)
	case resp.StatusCode == http.StatusOK:
		return resp, nil
	}
	defer drop(resp)
	if resp.StatusCode == statusUnknownModule {
		return nil, errUnknownModule
	}
	return nil, readError(resp)
}

// drop reads an answer to its end, else its connection is not used again.
func drop(resp *http.Response) {
	_, _ = io.Copy(io.Discard, resp.Body) // what matters was read
	_ = resp.Body.Close()
}

// lost returns the error for a connection that broke: the supervisor has ended, unless the
// caller has given up.
func (c *Client) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.mu.Lock()
	c.accepted = false
	c.mu.Unlock()
	if request := (*url.Error)(nil); errors.As(err, &request) {
		err = request.Err // its address is nobody's
	}
	ended := abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("the supervisor of workloads has ended: %v", err))
	at := (*net.OpError)(nil)
	return lostError{cause: ended, asked: !errors.As(err, &at) || at.Op != "dial"}
}

// handshake makes sure that a supervisor is there and has our protocol version.
func (c *Client) handshake(ctx context.Context) error {
	if c.isAccepted() {
		return nil
	}
	select {
	case c.launching <- struct{}{}:
		defer func() { <-c.launching }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if c.isAccepted() { // by the call that this one waited for
		return nil
	}
	hello, err := c.hello(ctx)
	if err != nil && ctx.Err() == nil {
		hello, err = c.launch(ctx)
	}
	if err != nil {
		return err
	}
	if hello.Protocol != protocol {
		return abi.NewError(abi.FailedPrecondition, fmt.Sprintf("the supervisor (process %d) is of version %s, which this agent does not support: stop its tasks with that version, or end it", hello.PID, hello.Version))
	}
	hello = c.renew(ctx, hello)
	c.mu.Lock()
	c.accepted, c.pid = true, hello.PID
	c.mu.Unlock()
	c.Logger.Info("workloads belong to the supervisor", "pid", hello.PID, "version", hello.Version)
	return nil
}

func (c *Client) isAccepted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.accepted
}

// launch starts a supervisor. When that fails, one that an earlier agent started may be
// about to answer, or about to end, which lets another start.
func (c *Client) launch(ctx context.Context) (*Hello, error) {
	launched, launchErr := false, error(nil)
	hello, err := backoff.Retry(ctx, func() (*Hello, error) {
		if !launched {
			launchErr = c.Launch(ctx)
			launched = launchErr == nil
		}
		return c.hello(ctx)
	}, backoff.WithBackOff(backoff.NewExponentialBackOff()), backoff.WithMaxElapsedTime(launchTimeout))
	if err != nil && launchErr != nil {
		err = abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("the supervisor of workloads failed to start: %v", launchErr))
	}
	return hello, err
}

// launchTimeout is how long a supervisor may take to answer, or to end: it is a program
// that starts or ends on a machine that may be busy.
const launchTimeout = 10 * time.Second

func (c *Client) hello(ctx context.Context) (*Hello, error) {
	var hello Hello
	body, err := json.Marshal(&request{Owns: c.Owns})
	if err != nil {
		return nil, err
	}
	if err := c.post(ctx, opHello, body, &hello); err != nil {
		return nil, err
	}
	return &hello, nil
}
