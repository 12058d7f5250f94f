package supervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/inflight"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// execProtocol is what a connection for a command becomes.
const execProtocol = "wasmnode-exec"

// execRequest asks for a command in a workload, or for a helper. Streams that are not asked for
// are not sent.
type execRequest struct {
	Helper  *workload.Helper `json:",omitempty"` // nil: a command
	ID      string
	Command string
	Args    []string
	TTY     bool
	Size    workload.Size
	Stdin   bool
	Stdout  bool
	Stderr  bool
}

// aliveInterval is how often a client is sent a frame while its command runs, so that one that has
// gone is noticed also while its input waits to be read.
const aliveInterval = time.Second

// commands are those that run in workloads while the server serves.
type commands struct {
	ctx  context.Context // they end with it
	gate inflight.Group
}

// exec runs a command for as long as its connection is there and commands may run.
func (s *Server) exec(running *commands, w http.ResponseWriter, r *http.Request) {
	var ask execRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequestBytes)).Decode(&ask); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.Header.Get("Upgrade") != execProtocol {
		http.Error(w, "this needs a connection that becomes "+execProtocol, http.StatusUpgradeRequired)
		return
	}
	if err := s.execable(r.Context(), &ask); err != nil {
		writeError(w, err)
		return
	}
	if !running.gate.Enter() {
		writeError(w, abi.NewRecoverableError(abi.Unavailable, "the supervisor is shutting down"))
		return
	}
	defer running.gate.Leave()
	s.idle.began() // a helper has no workload that keeps the server
	defer s.idle.ended()
	conn, from, err := hijack(w)
	if err != nil {
		s.Logger.Warn("a connection for a command could not be opened", "workload", ask.ID, "error", err)
		return
	}
	s.serveExec(running.ctx, &ask, conn, from) //nolint:contextcheck // its connection is not a request's any more
}

// execable refuses what cannot have commands while there is an ordinary answer for it.
func (s *Server) execable(ctx context.Context, ask *execRequest) error {
	if ask.Helper != nil {
		return nil
	}
	if s.records.result(ask.ID) != nil {
		return abi.NewError(abi.FailedPrecondition, fmt.Sprintf("workload %s has ended", ask.ID))
	}
	_, err := s.Workloads.Inspect(ctx, ask.ID)
	return err
}

// runAsked runs what was asked for to its end.
func (s *Server) runAsked(ctx context.Context, ask *execRequest, streams *workload.ExecSpec) (*structs.ExitResult, error) {
	if ask.Helper == nil {
		return s.Workloads.Exec(ctx, ask.ID, streams)
	}
	helper := *ask.Helper
	helper.Stdin, helper.Stdout, helper.Stderr = streams.Stdin, streams.Stdout, streams.Stderr
	return s.Workloads.Run(ctx, &helper)
}

// hijack makes the request's connection ours, and confirms that to the client.
func hijack(w http.ResponseWriter) (net.Conn, *bufio.Reader, error) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+execProtocol+"\r\n\r\n")
	if err != nil {
		_ = conn.Close()
	}
	return conn, rw.Reader, err
}

// serveExec runs a command between the frames of a connection, and returns when nothing
// of it is left.
func (s *Server) serveExec(parent context.Context, ask *execRequest, conn net.Conn, from io.Reader) {
	ctx, cancel := context.WithCancel(parent)
	// Also a client that does not read must not keep a command that is to end.
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	to := &frameWriter{w: conn}
	in := workload.NewInput()
	var serving sync.WaitGroup
	serving.Go(func() {
		receive(newFrameReader(from), in)
		cancel() // the client has gone
	})
	serving.Go(func() {
		keepAlive(ctx, to)
		cancel()
	})
	exit, err := s.runAsked(ctx, ask, ask.spec(in, to))
	in.Close()
	if err != nil && parent.Err() != nil {
		err = abi.NewRecoverableError(abi.Unavailable, "the supervisor of workloads has ended") // the same error as clients return that lost their connection
	}
	sendEnd(to, exit, err)
	cancel() // which closes the connection: all is sent, and nothing more is received
	serving.Wait()
}

// keepAlive writes to the connection now and then, which shows whether it is there.
func keepAlive(ctx context.Context, to *frameWriter) {
	ticker := time.NewTicker(aliveInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if to.write(frameAlive, nil) != nil {
				return
			}
		}
	}
}

func sendEnd(to *frameWriter, exit *structs.ExitResult, err error) {
	if err == nil {
		_ = to.writeJSON(frameExit, exit) // the client may have gone
		return
	}
	_ = to.writeJSON(frameError, abi.Flat(err))
}

// spec is the command to run.
func (ask *execRequest) spec(in *workload.Input, to *frameWriter) *workload.ExecSpec {
	spec := &workload.ExecSpec{Command: ask.Command, Args: ask.Args, TTY: ask.TTY, Size: ask.Size}
	in.Give(spec)
	if !ask.Stdin {
		spec.Stdin = nil
	}
	if ask.Stdout {
		spec.Stdout = to.stream(frameStdout)
	}
	if ask.Stderr {
		spec.Stderr = to.stream(frameStderr)
	}
	return spec
}

// receive hands frames over until there are no more, or one is not understood.
func receive(frames *frameReader, in *workload.Input) {
	defer in.Break()
	for {
		kind, payload, err := frames.next()
		if err != nil {
			return
		}
		switch kind {
		case frameStdin:
			in.Feed(payload)
		case frameStdinEnd:
			in.End()
		case frameSize:
			var size workload.Size
			if json.Unmarshal(payload, &size) != nil {
				return
			}
			in.Resize(size)
		default:
			return
		}
	}
}
