package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// execTask runs a command in a task.
func (h *handler) execTask(w http.ResponseWriter, r *http.Request) error {
	return h.executeOver(w, r, func(r *http.Request) (execution, error) {
		spec, task, err := h.parseExec(r)
		if err != nil {
			return nil, err
		}
		if err := callerOf(r).mayExec(h.ControlPlane.Allocation(r.PathValue("id")), task); err != nil {
			return nil, err
		}
		if err := h.Node.CanExec(r.PathValue("id"), task); err != nil {
			return nil, h.unknownAllocation(r, err)
		}
		return h.run(r.PathValue("id"), task, spec), nil
	})
}

// execution is a command that its caller may run in a task: it runs until nothing of it is left, and
// closes the connection.
type execution func(context.Context, *websocket.Conn)

// execute is what a request has executed, or why it is refused. What has been begun for it ends with
// the request.
type execute func(*http.Request) (execution, error)

// executeOver runs a command between the messages of a websocket. What can be refused is refused
// with an ordinary answer; then the connection becomes a websocket, as Nomad's tools expect it.
// Where the token comes with its first message it is the other way round.
func (h *handler) executeOver(w http.ResponseWriter, r *http.Request, what execute) error {
	if callerOf(r).later {
		return h.executeLater(w, r, what) //nolint:contextcheck // the context is that of the request
	}
	e, err := what(r)
	if err != nil {
		return err
	}
	conn, err := upgrade(w, r)
	if err != nil {
		return err
	}
	e(r.Context(), conn)
	return nil
}

// upgrade has a request's connection become a websocket.
func upgrade(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	var refused error
	upgrader := websocket.Upgrader{Error: func(_ http.ResponseWriter, _ *http.Request, status int, err error) {
		refused = &statusError{status, err.Error()}
	}}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil, refused
	}
	return conn, nil
}

// run runs a command in a task of this node.
func (h *handler) run(allocID, task string, spec *workload.ExecSpec) execution {
	return func(ctx context.Context, conn *websocket.Conn) {
		conn.SetReadLimit(clientapi.MaxExecMessage)
		h.Logger.Info("a command runs in a task", "alloc_id", allocID, "task", task, "command", spec.Command)
		session := &execSocket{conn: conn}
		_ = clientapi.Exec(ctx, session, spec, func(ctx context.Context) (*structs.ExitResult, error) { // errors: the client was told
			return h.Node.Exec(ctx, allocID, task, spec)
		})
		_ = conn.Close()
	}
}

// parseExec reads what to run where. The task can be left out when there is only one.
func (h *handler) parseExec(r *http.Request) (*workload.ExecSpec, string, error) {
	v := r.URL.Query()
	command, err := commandOf(r)
	if err != nil {
		return nil, "", err
	}
	if len(command) == 0 || command[0] == "" {
		return nil, "", badRequest("command is not present")
	}
	spec := &workload.ExecSpec{Command: command[0], Args: command[1:]}
	if s := v.Get("tty"); s != "" {
		if spec.TTY, err = strconv.ParseBool(s); err != nil {
			return nil, "", badRequest("tty value is not a boolean: %q", s)
		}
	}
	alloc := h.ControlPlane.Allocation(r.PathValue("id"))
	if alloc == nil {
		return nil, "", h.notHere(r.PathValue("id"))
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

// commandOf is the command that a request is to run, with its arguments.
func commandOf(r *http.Request) (command []string, err error) {
	if err := json.Unmarshal([]byte(r.URL.Query().Get("command")), &command); err != nil {
		return nil, badRequest("command is not a JSON list of strings: %v", err)
	}
	return command, nil
}

// execSocket is a command's websocket.
type execSocket struct {
	conn *websocket.Conn
	mu   sync.Mutex // guards writes
}

// lingerTime is how long a client has to close its end.
const lingerTime = 5 * time.Second

// Receive implements [clientapi.ExecConn].
func (s *execSocket) Receive(in *nomad.ExecStreamingInput) error { return s.conn.ReadJSON(in) }

// Send implements [clientapi.ExecConn].
func (s *execSocket) Send(message *nomad.ExecStreamingOutput) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn.WriteJSON(message)
}

// Close implements [clientapi.ExecConn].
func (s *execSocket) Close() error { return s.conn.Close() }

// closeGrace bounds the last message.
const closeGrace = time.Second

// Finish implements [clientapi.ExecConn]. A client that has gone gets nothing.
func (s *execSocket) Finish(err error) {
	code, reason := websocket.CloseNormalClosure, ""
	if err != nil {
		code, reason = websocket.CloseInternalServerErr, closeReason(err)
	}
	_ = s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Now().Add(closeGrace))
	// A connection that is closed while input comes in loses output on its way.
	_ = s.conn.NetConn().SetReadDeadline(time.Now().Add(lingerTime)) // it is closed: nothing comes
}

// maxCloseReason is the size of a websocket's closing message, in bytes.
const maxCloseReason = 123

// closeReason is the text that people read.
func closeReason(err error) string {
	text := clientapi.ExecError(err)
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
