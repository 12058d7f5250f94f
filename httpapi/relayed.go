package httpapi

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/httpapi/access"
)

const (
	plainText   = "text/plain; charset=utf-8"
	plainJSON   = "application/json"
	packedBytes = "application/x-gzip"
)

func alwaysPlain(*http.Request) (bool, error) { return true, nil }
func neverPlain(*http.Request) (bool, error)  { return false, nil }

// plainIfAsked is how logs are sent: as frames of JSON, or as they are with plain=true.
func plainIfAsked(r *http.Request) (bool, error) { return boolParameter(r, "plain") }

// relayed passes on a question whose answer is a stream, and sends each frame of it as it comes.
func relayed(method string, args arguments, isPlain func(*http.Request) (bool, error)) passedOn {
	return func(h *handler, w http.ResponseWriter, r *http.Request) error {
		plain, err := isPlain(r)
		if err != nil {
			return err
		}
		all, err := args(r)
		if err != nil {
			return err
		}
		kind := plainJSON
		if plain {
			all["PlainText"], kind = true, plainText
		}
		st, err := h.stream(r, method, all)
		if err != nil {
			return missing(err)
		}
		defer st.Close()
		w.Header().Set("Content-Type", kind)
		return relay(w, r, st, "")
	}
}

// relay sends what comes of a stream, and what ends each piece, until there is no more. A client that
// does not read a piece in time is let go of. An error that comes first is the answer.
func relay(w http.ResponseWriter, r *http.Request, st clientapi.ServerStream, end string) error {
	out := http.NewResponseController(w)
	for begun := false; ; begun = true {
		piece, err := st.Receive()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !begun:
			w.Header().Del("Content-Type")
			return missing(statusOfServers(err))
		case err != nil:
			panic(http.ErrAbortHandler) // the status is sent: all that is left is to end the answer short
		}
		if _, err := (timely{w}).Write(append(piece, end...)); err != nil {
			return nil // the client is gone
		}
		if err := out.Flush(); err != nil && r.Context().Err() != nil {
			return nil
		}
	}
}

// timely is a client that has to read each piece in time.
type timely struct{ http.ResponseWriter }

// Write implements [io.Writer].
func (t timely) Write(p []byte) (int, error) {
	_ = http.NewResponseController(t.ResponseWriter).SetWriteDeadline(time.Now().Add(replyTimeout)) // errors: the client may take its time
	return t.ResponseWriter.Write(p)
}

// eventsElsewhere sends the events of the cluster, a batch of JSON a line.
func eventsElsewhere(h *handler, w http.ResponseWriter, r *http.Request) error {
	all, err := topics(r)
	if err != nil {
		return err
	}
	st, err := h.stream(r, "Event.Stream", all)
	if err != nil {
		return err
	}
	defer st.Close()
	w.Header().Set("Content-Type", plainJSON)
	w.Header().Set("Cache-Control", "no-cache")
	return relay(w, r, st, "\n")
}

// topics are those of the events that a request asks for. Which there are servers know.
func topics(r *http.Request) (map[string]any, error) {
	list := r.URL.Query()["topic"]
	if len(list) > maxTopics {
		return nil, badRequest("too many topics: %d, where %d are allowed", len(list), maxTopics)
	}
	all := map[string][]string{}
	for _, s := range list {
		filter, is := oneTopic(s)
		if !is {
			return nil, badRequest("Invalid topic query: error parsing topics: Invalid key value pair for topic, topic: %s", s)
		}
		all[filter.topic] = append(all[filter.topic], filter.key)
	}
	if len(all) == 0 {
		all["*"] = []string{"*"}
	}
	index, err := number(r, "index")
	if err != nil {
		return nil, badRequest("Unable to parse index: %q is not a number", r.URL.Query().Get("index"))
	}
	return map[string]any{"Topics": all, "Index": index}, nil
}

func filePath(r *http.Request) (map[string]any, error) {
	path := r.URL.Query().Get("path")
	if path == "" && strings.HasPrefix(r.URL.Path, "/v1/client/fs/ls/") {
		path = "/"
	}
	if path == "" {
		return nil, badRequest("must provide a file name")
	}
	return map[string]any{"AllocID": r.PathValue("id"), "Path": path}, nil
}

func fileWhole(r *http.Request) (map[string]any, error) {
	all, err := filePath(r)
	if err == nil {
		all["Origin"] = "start"
	}
	return all, err
}

func filePart(r *http.Request) (map[string]any, error) {
	all, err := fileWhole(r)
	if err != nil {
		return nil, err
	}
	for argument, parameter := range map[string]string{"Offset": "offset", "Limit": "limit"} {
		n, err := number(r, parameter)
		if err != nil {
			return nil, badRequest("error parsing %s: %q is not a byte count", parameter, r.URL.Query().Get(parameter))
		}
		all[argument] = n
	}
	return all, nil
}

// position is from where on a stream is sent, and whether what comes is, too.
func position(r *http.Request, follow bool) (map[string]any, error) {
	opts, err := logOptions(r)
	if err != nil {
		return nil, err
	}
	offset, err := number(r, "offset")
	return map[string]any{
		"Origin": cmp.Or(r.URL.Query().Get("origin"), "start"), "Offset": offset, "Follow": opts.Follow || follow,
	}, err
}

func fileFollowed(r *http.Request) (map[string]any, error) {
	return both(filePath, func(r *http.Request) (map[string]any, error) {
		return position(r, r.URL.Query().Get("follow") == "")
	})(r)
}

func logOf(r *http.Request) (map[string]any, error) {
	v := r.URL.Query()
	if v.Get("task") == "" {
		return nil, badRequest("must provide task name")
	}
	if err := clientapi.CheckStream(v.Get("type")); err != nil {
		return nil, err
	}
	all, err := both(allocID, func(r *http.Request) (map[string]any, error) { return position(r, false) })(r)
	if err == nil {
		all["Task"], all["LogType"] = v.Get("task"), v.Get("type")
	}
	return all, err
}

func monitored(r *http.Request) (map[string]any, error) {
	if _, err := monitorOptions(r); err != nil {
		return nil, err
	}
	all, err := both(agent, flagged(map[string]string{"LogJSON": "log_json", "LogIncludeLocation": "log_include_location"}))(r)
	if err == nil {
		all["LogLevel"] = cmp.Or(r.URL.Query().Get("log_level"), "INFO")
	}
	return all, err
}

func exported(r *http.Request) (map[string]any, error) {
	all, err := both(agent, flagged(map[string]string{"OnDisk": "on_disk", "Follow": "follow"}))(r)
	if err == nil {
		v := r.URL.Query()
		all["ServiceName"], all["LogsSince"] = v.Get("service_name"), cmp.Or(v.Get("logs_since"), "72h")
	}
	return all, err
}

// execElsewhere passes on a command in a task of another node, between a websocket and the servers.
func execElsewhere(args arguments) passedOn {
	return func(h *handler, w http.ResponseWriter, r *http.Request) error {
		if !websocket.IsWebSocketUpgrade(r) { // servers begin the command once they are asked
			return badRequest("a command runs over a websocket: the request does not ask to become one")
		}
		return h.executeOver(w, r, func(r *http.Request) (execution, error) {
			all, err := args(r)
			if err != nil {
				return nil, err
			}
			st, err := h.stream(r, "Allocations.Exec", all)
			if err != nil {
				return nil, missing(err)
			}
			return func(ctx context.Context, conn *websocket.Conn) { converse(ctx, conn, st) }, nil
		})
	}
}

func commandElsewhere(r *http.Request) (map[string]any, error) {
	command, err := commandOf(r)
	if err != nil {
		return nil, err
	}
	tty, err := boolParameter(r, "tty")
	return map[string]any{"AllocID": r.PathValue("id"), "Task": r.URL.Query().Get("task"), "Cmd": command, "Tty": tty}, err
}

func actionElsewhere(r *http.Request) (map[string]any, error) {
	id, _ := jobPath(r)
	v := r.URL.Query()
	tty, err := boolParameter(r, "tty")
	return map[string]any{"JobID": id, "AllocID": v.Get("allocID"), "Task": v.Get("task"), "Action": v.Get("action"), "Tty": tty}, err
}

// converse passes on what is said between a websocket and servers, until either has said all, or ctx
// is done.
func converse(ctx context.Context, conn *websocket.Conn, st clientapi.ServerStream) {
	defer st.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // a client that does not read would hold it
	conn.SetReadLimit(clientapi.MaxExecMessage)
	socket := &execSocket{conn: conn}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		defer st.Close() // the client has gone
		for {
			var in nomad.ExecStreamingInput
			if socket.Receive(&in) != nil || st.SendValue(execMessage(&in)) != nil {
				return
			}
		}
	}()
	var err error
	for err == nil {
		var piece []byte
		if piece, err = st.Receive(); err == nil {
			_ = conn.SetWriteDeadline(time.Now().Add(replyTimeout)) // errors: the connection has gone
			err = conn.WriteMessage(websocket.TextMessage, piece)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	socket.Finish(statusOfServers(err))
	st.Close() // what the command has not read is held until then
	<-heard
	_ = conn.Close()
}

// execMessage is a message of who runs a command as servers take it.
func execMessage(in *nomad.ExecStreamingInput) map[string]any {
	all := map[string]any{}
	if in.Stdin != nil {
		all["Stdin"] = in.Stdin
	}
	if size := in.TTYSize; size != nil {
		all["TtySize"] = size
	}
	return all
}

// snapshotAnswer is what servers say of a snapshot, before it or after it.
type snapshotAnswer struct {
	SnapshotChecksum string
	ErrorCode        int
	ErrorMsg         string
}

// failure is why there is none; nil: there is.
func (a snapshotAnswer) failure() error {
	if a.ErrorMsg == "" {
		return nil
	}
	status := a.ErrorCode
	if status < http.StatusBadRequest || status > 599 {
		status = http.StatusInternalServerError
	}
	return &statusError{status, a.ErrorMsg}
}

// snapshotSaved sends a snapshot of the servers.
func snapshotSaved(h *handler, w http.ResponseWriter, r *http.Request) error {
	st, err := h.stream(r, "Operator.SnapshotSave", map[string]any{})
	if err != nil {
		return err
	}
	defer st.Close()
	var said snapshotAnswer
	if err := st.Decode(&said); err != nil {
		return statusOfServers(err)
	}
	if err := said.failure(); err != nil {
		return err
	}
	w.Header().Set("Content-Type", packedBytes)
	w.Header().Set("Digest", said.SnapshotChecksum)
	if _, err := io.Copy(timely{w}, st); err != nil && r.Context().Err() == nil {
		panic(http.ErrAbortHandler) // the status is sent
	}
	return nil
}

// snapshotRestored has the servers become what a snapshot has.
func snapshotRestored(h *handler, w http.ResponseWriter, r *http.Request) error {
	st, err := h.stream(r, "Operator.SnapshotRestore", map[string]any{})
	if err != nil {
		return err
	}
	defer st.Close()
	sent := make(chan error, 1) // one result
	go func() { sent <- sendSnapshot(st, http.MaxBytesReader(nil, r.Body, maxSnapshot)) }()
	var said snapshotAnswer
	err = st.Decode(&said)
	st.Close()
	if bad := <-sent; bad != nil && err != nil {
		return bad
	}
	if err != nil {
		return statusOfServers(err)
	}
	if err := said.failure(); err != nil {
		return err
	}
	return h.reply(w, r, struct{}{})
}

// sendSnapshot sends a snapshot in frames. One with an error ends them, which Nomad's agents give the
// name of the end of a file.
func sendSnapshot(st clientapi.ServerStream, from io.Reader) error {
	_, err := io.Copy(bytesTo{st}, from)
	if err != nil {
		st.Close()
		return err
	}
	return st.SendFailure(io.EOF.Error())
}

// bytesTo sends what is written.
type bytesTo struct{ clientapi.ServerStream }

// Write implements [io.Writer].
func (b bytesTo) Write(p []byte) (int, error) {
	if err := b.SendBytes(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// stream starts a stream of the servers for a request, with further arguments.
func (h *handler) stream(r *http.Request, method string, args map[string]any) (clientapi.ServerStream, error) {
	stale, err := boolParameter(r, "stale")
	if err != nil {
		return nil, err
	}
	all := map[string]any{"Namespace": namespaceOf(r), "AllowStale": stale}
	if region := r.URL.Query().Get("region"); region != "" {
		all["Region"] = region
	}
	for name, value := range args {
		all[name] = value
	}
	st, err := h.Servers.Stream(r.Context(), method, access.Secret(r.Header), all)
	if err != nil {
		return nil, h.unanswered(r, err)
	}
	return st, nil
}
