package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload/logfile"
)

// streamLogs sends a task's log: as frames of JSON, or as it is with plain=true.
func (h *handler) streamLogs(w http.ResponseWriter, r *http.Request) error {
	v := r.URL.Query()
	task, stream := v.Get("task"), v.Get("type")
	if task == "" {
		return badRequest("must provide task name")
	}
	if stream != "stdout" && stream != "stderr" {
		return badRequest("must provide log type (stdout/stderr)")
	}
	opts, err := logOptions(r)
	if err != nil {
		return err
	}
	files, err := h.files(r)
	if err != nil {
		return err
	}
	// Of one that only the node knows, its tasks are not known here: their names stay names.
	alloc := h.ControlPlane.Allocation(r.PathValue("id"))
	if alloc != nil && alloc.Task(task) == nil || strings.ContainsRune(task, '/') {
		return badRequest("unknown task name %q", task)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if opts.Follow {
		opts.Stop = h.taskEnd(ctx, r.PathValue("id"), task)
	}
	sink := newFrameSink(w, v.Get("plain") == "true", path.Join("alloc", "logs"))
	defer sink.heartbeats(ctx)()
	err = logfile.Follow(ctx, files.LogPath(task, stream), opts, sink.send)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		if !sink.begun() {
			return err
		}
		// The status is sent: all that is left is to end the answer short.
		panic(http.ErrAbortHandler)
	}
	return sink.finish()
}

func logOptions(r *http.Request) (logfile.Options, error) {
	v := r.URL.Query()
	var o logfile.Options
	var err error
	if s := v.Get("follow"); s != "" {
		if o.Follow, err = strconv.ParseBool(s); err != nil {
			return o, badRequest("failed to parse follow field to boolean: %q", s)
		}
	}
	if s := v.Get("offset"); s != "" {
		if o.Offset, err = strconv.ParseInt(s, 10, 64); err != nil || o.Offset < 0 {
			return o, badRequest("error parsing offset: %q is not a byte count", s)
		}
	}
	switch origin := v.Get("origin"); origin {
	case "", nomad.OriginStart:
	case nomad.OriginEnd:
		o.FromEnd = true
		o.NewestFile = o.Offset == 0 // as Nomad does, and its command line counts on
	default:
		return o, badRequest("must have a start or end origin value, not %q", origin)
	}
	return o, nil
}

// taskEnd returns a channel that is closed when the task has ended for good, so that
// following its log ends too.
func (h *handler) taskEnd(ctx context.Context, allocID, task string) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		for ctx.Err() == nil {
			seen := h.ControlPlane.Index(tableAllocations)
			a := h.ControlPlane.Allocation(allocID)
			if a == nil || a.ClientStatus.Terminal() || taskDead(a, task) {
				close(ended)
				return
			}
			h.ControlPlane.Wait(ctx, tableAllocations, seen)
		}
	}()
	return ended
}

func taskDead(a *structs.Allocation, task string) bool {
	s := a.TaskStates[task]
	return s != nil && s.State == structs.TaskDead
}

// frameSink writes a stream's pieces, and heartbeats between them.
type frameSink struct {
	w     http.ResponseWriter
	plain bool
	dir   string // of the files, as clients see it

	mu      sync.Mutex
	buf     *bufio.Writer
	started bool
	idle    bool // nothing was sent since the last heartbeat
}

func newFrameSink(w http.ResponseWriter, plain bool, dir string) *frameSink {
	return &frameSink{w: w, plain: plain, dir: dir, buf: bufio.NewWriter(w)}
}

// send writes one piece and flushes it to the client.
func (s *frameSink) send(c logfile.Chunk) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = false
	if s.plain {
		return s.write(c.Data)
	}
	frame, err := json.Marshal(nomad.StreamFrame{Data: c.Data, File: path.Join(s.dir, c.File), Offset: c.Offset})
	if err != nil {
		return err
	}
	return s.write(frame)
}

func (s *frameSink) write(b []byte) error {
	s.begin()
	if _, err := s.buf.Write(b); err != nil {
		return err
	}
	if err := s.buf.Flush(); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

// open sends the header: whoever reads knows that the stream has begun.
func (s *frameSink) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(nil)
}

func (s *frameSink) begin() {
	if s.started {
		return
	}
	s.started = true
	contentType := "application/json"
	if s.plain {
		contentType = "text/plain; charset=utf-8"
	}
	s.w.Header().Set("Content-Type", contentType)
}

func (s *frameSink) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started
}

// finish sends the header of a stream that had nothing to send.
func (s *frameSink) finish() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
	return s.buf.Flush()
}

// heartbeats sends heartbeats until the function that it returns is called.
func (s *frameSink) heartbeats(ctx context.Context) (stop func()) {
	if s.plain {
		return func() {}
	}
	return atHeartbeats(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.idle {
			// A client that is gone ends the request by its context.
			_ = s.write([]byte("{}"))
		}
		s.idle = true
	})
}
