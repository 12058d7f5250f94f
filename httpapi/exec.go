package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
	"github.com/wasmnode/wasmnode/workload"
)

// execTask runs a command in a task. What can be refused is refused with an ordinary
// answer; then the connection becomes a websocket, as Nomad's tools expect it.
func (h *handler) execTask(w http.ResponseWriter, r *http.Request) error {
	spec, task, err := h.parseExec(r)
	if err != nil {
		return err
	}
	if err := callerOf(r).mayExec(h.ControlPlane.Allocation(r.PathValue("id")), task); err != nil {
		return err
	}
	if err := h.Node.CanExec(r.PathValue("id"), task); err != nil {
		return h.unknownAllocation(r, err)
	}
	return h.execOver(w, r, r.PathValue("id"), task, spec)
}

// execOver runs a command in a task between the messages of a websocket.
func (h *handler) execOver(w http.ResponseWriter, r *http.Request, allocID, task string, spec *workload.ExecSpec) error {
	var refused error
	upgrader := websocket.Upgrader{Error: func(_ http.ResponseWriter, _ *http.Request, status int, err error) {
		refused = &statusError{status, err.Error()}
	}}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return refused
	}
	s := &execSession{conn: conn, input: workload.NewInput()}
	h.Logger.Info("a command runs in a task", "alloc_id", allocID, "task", task, "command", spec.Command)
	s.run(r.Context(), spec, func(ctx context.Context) (*structs.ExitResult, error) {
		return h.Node.Exec(ctx, allocID, task, spec)
	})
	return nil
}

// parseExec reads what to run where. The task can be left out when there is only one.
func (h *handler) parseExec(r *http.Request) (*workload.ExecSpec, string, error) {
	v := r.URL.Query()
	var command []string
	if err := json.Unmarshal([]byte(v.Get("command")), &command); err != nil {
		return nil, "", badRequest("command is not a JSON list of strings: %v", err)
	}
	if len(command) == 0 || command[0] == "" {
		return nil, "", badRequest("command is not present")
	}
	spec := &workload.ExecSpec{Command: command[0], Args: command[1:]}
	if s := v.Get("tty"); s != "" {
		var err error
		if spec.TTY, err = strconv.ParseBool(s); err != nil {
			return nil, "", badRequest("tty value is not a boolean: %q", s)
		}
	}
	alloc := h.ControlPlane.Allocation(r.PathValue("id"))
	if alloc == nil {
		return nil, "", notFound("Unknown allocation %q", r.PathValue("id"))
	}
	task := v.Get("task")
	switch tasks := alloc.Group().Tasks; {
	case task == "" && len(tasks) == 1:
		task = tasks[0].Name
	case task == "":
		return nil, "", badRequest("must provide task name: the allocation has several")
	case alloc.Task(task) == nil:
		return nil, "", badRequest("unknown task name %q", task)
	}
	return spec, task, nil
}

// execSession is a command's websocket.
type execSession struct {
	conn  *websocket.Conn
	input *workload.Input

	mu sync.Mutex // guards writes
}

// maxExecMessage bounds a message of a client: its pieces of input have 2 KiB.
const maxExecMessage = 1 << 20

// firstSizeTimeout is how long a terminal's size is waited for, which clients send at
// once, so that a command that asks first thing gets the right answer, however far away
// or busy the client is.
const firstSizeTimeout = 5 * time.Second

// run runs a command between the messages of the connection, and returns when nothing
// of it is left.
func (s *execSession) run(ctx context.Context, spec *workload.ExecSpec, exec func(context.Context) (*structs.ExitResult, error)) {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(ctx, func() { _ = s.conn.Close() })
	s.conn.SetReadLimit(maxExecMessage)
	received := make(chan struct{})
	go func() {
		defer close(received)
		s.receive()
		cancel() // the client has gone
	}()
	stopHeartbeats := s.heartbeats(ctx, cancel)
	s.input.Give(spec)
	if spec.TTY {
		spec.Size = s.input.FirstSize(ctx, firstSizeTimeout)
	}
	spec.Stdout, spec.Stderr = execOutput{s, toStdout}, execOutput{s, toStderr}
	exit, err := exec(ctx)
	s.input.Close()
	stopHeartbeats()
	s.finish(exit, err)
	// A connection that is closed while input comes in loses output on its way.
	_ = s.conn.NetConn().SetReadDeadline(time.Now().Add(lingerTime)) // it is closed: nothing comes
	<-received
}

// lingerTime is how long a client has to close its end.
const lingerTime = 5 * time.Second

// receive takes messages until there are no more, or one is invalid.
func (s *execSession) receive() {
	defer s.input.Break()
	for {
		var in nomad.ExecStreamingInput
		if s.conn.ReadJSON(&in) != nil {
			return
		}
		if in.TTYSize != nil {
			s.input.Resize(workload.Size{Rows: dimension(in.TTYSize.Height), Columns: dimension(in.TTYSize.Width)})
		}
		if in.Stdin != nil {
			s.input.Feed(in.Stdin.Data)
			if in.Stdin.Close {
				s.input.End()
			}
		}
	}
}

// dimension is a terminal's height or width as the kernel takes it.
func dimension(n int) uint16 { return uint16(max(0, min(n, 1<<16-1))) }

// heartbeats writes to the connection now and then, until the function that it returns is
// called, and calls gone when the client is not there, which shows also while its input
// waits to be read.
func (s *execSession) heartbeats(ctx context.Context, gone func()) (stop func()) {
	return atHeartbeats(ctx, func() {
		if s.send(&nomad.ExecStreamingOutput{}) != nil {
			gone()
		}
	})
}

func (s *execSession) send(message *nomad.ExecStreamingOutput) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn.WriteJSON(message)
}

// closeGrace bounds the last message.
const closeGrace = time.Second

// finish sends how the command ended. A client that has gone gets nothing.
func (s *execSession) finish(exit *structs.ExitResult, err error) {
	code, reason := websocket.CloseNormalClosure, ""
	if err == nil {
		_ = s.send(&nomad.ExecStreamingOutput{Exited: true, Result: &nomad.ExecStreamingExitResult{ExitCode: exit.ExitCode}})
	} else {
		code, reason = websocket.CloseInternalServerErr, closeReason(err)
	}
	_ = s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Now().Add(closeGrace))
}

// maxCloseReason is the size of a websocket's closing message, in bytes.
const maxCloseReason = 123

// closeReason is the text that people read.
func closeReason(err error) string {
	text := fmt.Sprint(err)
	var e *errdefs.Error
	if errors.As(err, &e) {
		text = e.Message // what it is about they know
	}
	if len(text) <= maxCloseReason {
		return text
	}
	const more = "…"
	text = text[:maxCloseReason-len(more)]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + more
}

// execOutput is one of a command's streams to its client.
type execOutput struct {
	session *execSession
	message func([]byte) *nomad.ExecStreamingOutput
}

// Write implements [io.Writer].
func (o execOutput) Write(b []byte) (int, error) {
	return len(b), o.session.send(o.message(b))
}

func toStdout(b []byte) *nomad.ExecStreamingOutput {
	return &nomad.ExecStreamingOutput{Stdout: &nomad.ExecStreamingIOOperation{Data: b}}
}

func toStderr(b []byte) *nomad.ExecStreamingOutput {
	return &nomad.ExecStreamingOutput{Stderr: &nomad.ExecStreamingIOOperation{Data: b}}
}
