package httpapi

import (
	"net/http"
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/structs"
)

// renderedKept is how many batches' renderings are kept: those that clients who follow what
// happens read at about the same time.
const renderedKept = 8

// renderedBatches renders each event once, however many clients there are. It is safe for
// concurrent use.
type renderedBatches struct {
	mu    sync.Mutex
	kept  map[uint64]*renderedBatch // by place
	order []uint64                  // the oldest first
}

// renderedBatch is the rendering of a batch's events, each made when it is first asked for.
type renderedBatch struct {
	mu     sync.Mutex
	events [][]byte
}

func newRenderedBatches() *renderedBatches {
	return &renderedBatches{kept: map[uint64]*renderedBatch{}}
}

// line is the rendering of what a client asked for of a batch; nil: it asked for nothing.
func (c *renderedBatches) line(place uint64, batch *structs.ChangeBatch, wanted *events) ([]byte, error) {
	var kept *renderedBatch
	var list [][]byte
	for i, e := range batch.Events {
		if !wanted.has(e) {
			continue
		}
		if kept == nil {
			kept = c.batch(place, len(batch.Events))
		}
		b, err := kept.event(i, e)
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	if len(list) == 0 {
		return nil, nil
	}
	return joinEvents(batch.Index, list), nil
}

func (c *renderedBatches) batch(place uint64, size int) *renderedBatch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.kept[place]; b != nil {
		return b
	}
	if len(c.order) == renderedKept {
		delete(c.kept, c.order[0])
		c.order = c.order[1:]
	}
	b := &renderedBatch{events: make([][]byte, size)}
	c.kept[place] = b
	c.order = append(c.order, place)
	return b
}

func (b *renderedBatch) event(i int, e *structs.ChangeEvent) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.events[i] == nil {
		rendered, err := renderEvent(e)
		if err != nil {
			return nil, err
		}
		b.events[i] = rendered
	}
	return b.events[i], nil
}

// eventWriter writes a stream's lines, and heartbeats between them.
type eventWriter struct {
	mu    sync.Mutex
	w     http.ResponseWriter
	flush *http.ResponseController
	busy  bool // something was sent since the last heartbeat
}

// line sends one line. It fails when the client does not take it in time.
func (s *eventWriter) line(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = true
	return s.write(b)
}

func (s *eventWriter) write(b []byte) error {
	_ = s.flush.SetWriteDeadline(time.Now().Add(eventTimeout)) // errors: the client may take its time
	for _, part := range [][]byte{b, []byte("\n")} {
		if _, err := s.w.Write(part); err != nil {
			return err
		}
	}
	return s.flush.Flush()
}

func (s *eventWriter) heartbeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.busy {
		_ = s.write([]byte("{}")) // a client that is gone ends the request by its context
	}
	s.busy = false
}
