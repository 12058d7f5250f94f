package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs/errdefs"
	"github.com/wasmnode/wasmnode/workload/logfile"
)

// fileLook is how often it is looked whether a file that is followed has grown.
const fileLook = 250 * time.Millisecond

// What happens to a file that is followed, with Nomad's words.
const (
	fileDeleted   = "file deleted"
	fileTruncated = "file truncated"
)

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
	s := &fileStream{files: files, path: r.URL.Query().Get("path")}
	info, err := files.Stat(s.path)
	switch {
	case err != nil:
		return err
	case info.IsDir:
		return badRequest("file %q is a directory", s.path)
	case opts.FromEnd:
		s.offset = max(0, info.Size-opts.Offset)
	default:
		s.offset = min(info.Size, opts.Offset)
	}
	s.sink = newFrameSink(w, false, "")
	if err := s.sink.open(); err != nil {
		return nil // the client is gone
	}
	defer s.sink.heartbeats(r.Context())()
	if err := s.run(r.Context(), opts.Follow || r.URL.Query().Get("follow") == ""); err != nil && r.Context().Err() == nil {
		// The status is sent: all that is left is to end the answer short.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// fileStream is a position in a file. It keeps nothing open between two looks.
type fileStream struct {
	files  Files
	path   string
	offset int64
	sink   *frameSink
}

func (s *fileStream) run(ctx context.Context, follow bool) error {
	look := time.NewTicker(fileLook)
	defer look.Stop()
	for {
		if err := s.drain(ctx); err != nil || !follow {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		info, err := s.files.Stat(s.path)
		switch {
		case errors.Is(err, errdefs.NotFound):
			return s.sink.happened(s.path, fileDeleted)
		case err != nil:
			return err
		case info.Size < s.offset:
			s.offset = 0
			if err := s.sink.happened(s.path, fileTruncated); err != nil {
				return err
			}
		}
	}
}

// drain sends what there is of the file from the position on.
func (s *fileStream) drain(ctx context.Context) error {
	f, err := s.files.ReadAt(s.path, s.offset)
	if errors.Is(err, errdefs.NotFound) {
		return nil // the next look tells it
	}
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, logfile.ChunkBytes)
	for ctx.Err() == nil {
		n, err := f.Read(buf)
		if n > 0 {
			s.offset += int64(n)
			if err := s.sink.send(logfile.Chunk{File: s.path, Data: buf[:n], Offset: s.offset}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// happened tells what has happened to a file.
func (s *frameSink) happened(file, event string) error {
	frame, err := json.Marshal(nomad.StreamFrame{File: path.Join(s.dir, file), FileEvent: event})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(frame)
}
