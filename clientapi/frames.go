package clientapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path"
	"sync"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/workload/logfile"
)

// Frames sends a stream's pieces as frames of JSON, with heartbeats between them, or as they
// are. Its methods may be called concurrently.
type Frames struct {
	plain bool
	dir   string // of the files, as clients see it
	send  func([]byte) error

	mu   sync.Mutex
	idle bool // nothing was sent since the last heartbeat
}

// NewFrames returns frames that are sent by send, one call after another: each is to reach the
// client at once. dir is what clients have before the names of files.
func NewFrames(plain bool, dir string, send func([]byte) error) *Frames {
	return &Frames{plain: plain, dir: dir, send: send}
}

// Open sends nothing: whoever reads knows that the stream has begun.
func (f *Frames) Open() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.send(nil)
}

// Send sends one piece.
func (f *Frames) Send(c logfile.Chunk) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle = false
	if f.plain {
		return f.send(c.Data)
	}
	frame, err := json.Marshal(nomad.StreamFrame{Data: c.Data, File: path.Join(f.dir, c.File), Offset: c.Offset})
	if err != nil {
		return err
	}
	return f.send(frame)
}

// happened tells what has happened to a file, to who gets frames.
func (f *Frames) happened(file, event string) error {
	if f.plain {
		return nil
	}
	frame, err := json.Marshal(nomad.StreamFrame{File: path.Join(f.dir, file), FileEvent: event})
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.send(frame)
}

// Copy sends all that a reader has. The error is the reader's: a client that is gone is none.
func (f *Frames) Copy(from io.Reader) error {
	piece := make([]byte, logfile.ChunkBytes)
	var offset int64
	for {
		n, err := from.Read(piece)
		if n > 0 {
			offset += int64(n)
			if f.Send(logfile.Chunk{Data: piece[:n], Offset: offset}) != nil {
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Heartbeats sends heartbeats until the function that it returns is called.
func (f *Frames) Heartbeats(ctx context.Context) (stop func()) {
	if f.plain {
		return func() {}
	}
	return AtIntervals(ctx, heartbeat, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.idle {
			// A client that is gone ends the request by its context.
			_ = f.send([]byte("{}"))
		}
		f.idle = true
	})
}
