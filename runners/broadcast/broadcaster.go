package broadcast

import (
	"errors"
	"sync"

	"github.com/wasmnode/wasmnode/structs"
)

// ErrClosed is returned by Send after Close.
var ErrClosed = errors.New("broadcast: closed")

// Broadcaster sends an allocation's states to its listeners. The zero value is
// ready to use. All methods may be called concurrently, and none blocks.
type Broadcaster struct {
	mu        sync.Mutex
	last      *structs.AllocationState
	listeners map[*Listener]struct{}
	closed    bool
}

// Send hands a state to every listener, in place of one that it has not read yet.
// The state must not be changed afterwards.
func (b *Broadcaster) Send(s *structs.AllocationState) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	b.last = s
	for l := range b.listeners {
		l.offer(s)
	}
	return nil
}

// Listen adds a listener. What was sent last, if anything, is waiting in its channel,
// also when the broadcaster is closed.
func (b *Broadcaster) Listen() *Listener {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &Listener{b: b, ch: make(chan *structs.AllocationState, 1)}
	if b.last != nil {
		l.offer(b.last)
	}
	if b.closed {
		close(l.ch)
		return l
	}
	if b.listeners == nil {
		b.listeners = map[*Listener]struct{}{}
	}
	b.listeners[l] = struct{}{}
	return l
}

// Close closes every listener's channel; what waits in one can still be read. It is
// idempotent.
func (b *Broadcaster) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for l := range b.listeners {
		delete(b.listeners, l)
		close(l.ch)
	}
}

// Listener receives states, the newest last.
type Listener struct {
	b *Broadcaster
	// ch holds one state: the newest that was not read. It is written and closed
	// under b.mu only.
	ch chan *structs.AllocationState
}

// Ch delivers states. It is closed by the broadcaster's Close and by this
// listener's. States are shared and read-only.
func (l *Listener) Ch() <-chan *structs.AllocationState { return l.ch }

// Close ends the listening. It is idempotent and may be called while another
// goroutine receives.
func (l *Listener) Close() {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if _, open := l.b.listeners[l]; open {
		delete(l.b.listeners, l)
		close(l.ch)
	}
}

// offer puts s in the channel, in place of a state that waits there.
func (l *Listener) offer(s *structs.AllocationState) {
	select {
	case <-l.ch:
	default:
	}
	l.ch <- s // never blocks: only senders under b.mu fill the one slot
}
