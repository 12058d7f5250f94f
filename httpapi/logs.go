package httpapi

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/wasmnode/wasmnode/clientapi"
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
	if err := clientapi.CheckStream(stream); err != nil {
		return err
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
	sink := newFrameSink(w, v.Get("plain") == "true", clientapi.LogsDir)
	defer sink.Heartbeats(ctx)()
	err = logfile.Follow(ctx, files.LogPath(task, stream), opts, sink.Send)
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
	var follow bool
	var offset int64
	var err error
	if s := v.Get("follow"); s != "" {
		if follow, err = strconv.ParseBool(s); err != nil {
			return logfile.Options{}, badRequest("failed to parse follow field to boolean: %q", s)
		}
	}
	if s := v.Get("offset"); s != "" {
		if offset, err = strconv.ParseInt(s, 10, 64); err != nil {
			return logfile.Options{}, badRequest("error parsing offset: %q is not a byte count", s)
		}
	}
	opts, err := clientapi.Position(v.Get("origin"), offset)
	opts.Follow = follow
	return opts, err
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

// frameSink writes the frames of a stream as an answer.
type frameSink struct {
	*clientapi.Frames
	w     http.ResponseWriter
	plain bool

	mu      sync.Mutex
	started bool
}

func newFrameSink(w http.ResponseWriter, plain bool, dir string) *frameSink {
	s := &frameSink{w: w, plain: plain}
	s.Frames = clientapi.NewFrames(plain, dir, s.write)
	return s
}

// write sends a frame to the client at once.
func (s *frameSink) write(b []byte) error {
	s.begin()
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

func (s *frameSink) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	s.begin()
	return nil
}

// streamFile sends a file as frames of JSON, and what is added to it until it is removed or
// the client is gone; with follow=false only what is there.
func (h *handler) streamFile(w http.ResponseWriter, r *http.Request) error {
	opts, err := logOptions(r)
	if err != nil {
		return err
	}
	files, err := h.files(r)
	if err != nil {
		return err
	}
	file, err := clientapi.OpenFile(files, r.URL.Query().Get("path"), opts, 0)
	if err != nil {
		return err
	}
	sink := newFrameSink(w, false, "")
	if err := sink.Open(); err != nil {
		return nil // the client is gone
	}
	follow := opts.Follow || r.URL.Query().Get("follow") == ""
	if err := file.Run(r.Context(), follow, sink.Frames); err != nil && r.Context().Err() == nil {
		// The status is sent: all that is left is to end the answer short.
		panic(http.ErrAbortHandler)
	}
	return nil
}
