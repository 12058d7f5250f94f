package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/wasmnode/wasmnode/structs"
)

// renderedKept is how many batches' renderings are kept for who may ask for them next: those
// that clients who follow what happens read at about the same time.
const renderedKept = 8

// renderedBatches renders each event once, however many clients there are and however slowly
// they read: a rendering is shared for as long as anybody has it. It is safe for concurrent
// use.
type renderedBatches struct {
	mu     sync.Mutex
	known  map[uint64]weak.Pointer[renderedBatch] // by place
	latest []*renderedBatch                       // at most renderedKept, the oldest first
}

// renderedBatch is the rendering of a batch's events, each made when it is first asked for.
type renderedBatch struct {
	mu     sync.Mutex
	events []*renderedEvent
}

// renderedEvent keeps its batch's rendering known while it is held.
type renderedEvent struct {
	json  []byte
	batch *renderedBatch
}

func newRenderedBatches() *renderedBatches {
	return &renderedBatches{known: map[uint64]weak.Pointer[renderedBatch]{}}
}

// events are the renderings of what a client asked for of a batch.
func (c *renderedBatches) events(place uint64, batch *structs.ChangeBatch, wanted *events) (list []*renderedEvent, err error) {
	var rendered *renderedBatch
	for i, e := range batch.Events {
		if !wanted.has(e) {
			continue
		}
		if rendered == nil {
			rendered = c.batch(place, len(batch.Events))
		}
		event, err := rendered.event(i, e)
		if err != nil {
			return nil, err
		}
		list = append(list, event)
	}
	return list, nil
}

func (c *renderedBatches) batch(place uint64, size int) *renderedBatch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.known[place].Value(); b != nil {
		return b
	}
	maps.DeleteFunc(c.known, func(_ uint64, p weak.Pointer[renderedBatch]) bool { return p.Value() == nil })
	b := &renderedBatch{events: make([]*renderedEvent, size)}
	c.known[place] = weak.Make(b)
	c.latest = append(c.latest, b)
	if len(c.latest) > renderedKept {
		c.latest = slices.Delete(c.latest, 0, 1)
	}
	return b
}

func (b *renderedBatch) event(i int, e *structs.ChangeEvent) (*renderedEvent, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.events[i] == nil {
		rendered, err := renderEvent(e)
		if err != nil {
			return nil, err
		}
		b.events[i] = &renderedEvent{rendered, b}
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

// batch sends a batch's events as one line. It has no copy of them: many clients may take
// their time to read the same.
func (s *eventWriter) batch(index uint64, events []*renderedEvent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = true
	parts := make([][]byte, 0, 2*len(events)+1)
	for i, e := range events {
		before := ","
		if i == 0 {
			before = `{"Events":[`
		}
		parts = append(parts, []byte(before), e.json)
	}
	err := s.write(append(parts, fmt.Appendf(nil, `],"Index":%d}`, index))...)
	runtime.KeepAlive(events) // and with them their batch's rendering, for others to share
	return err
}

func (s *eventWriter) write(line ...[]byte) error {
	_ = s.flush.SetWriteDeadline(time.Now().Add(eventTimeout)) // errors: the client may take its time
	for _, part := range append(line, []byte("\n")) {
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
