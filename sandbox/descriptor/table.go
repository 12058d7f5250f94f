package descriptor

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The bounds of one guest, and where its descriptors are.
const (
	// maxConnections is how many accepted connections a guest has open at once. It may
	// wait for each to be read and written in one poll, which has 1024 subscriptions.
	maxConnections = 500
	// MaxListeners is how many listeners a guest has.
	MaxListeners = 16
	// First is the first that is no standard stream: that of the first listener.
	First = 3

	// firstConnection is beyond what the engine's table of files can reach.
	firstConnection = 1 << 24
	standardInput   = 0
)

// Table has the descriptors of one guest. The zero value has none. What is given to it is
// given before the guest starts; from then on it belongs to the goroutine of the guest's
// call, but for [Table.Signal]. It has to be closed when the guest has ended.
type Table struct {
	given       []*handle // from First on; nil: the guest has closed it
	stdin       *handle
	connections []*handle // from firstConnection on; nil: free
	open        int       // of the connections
	waiter      waiter
	idleAfter   time.Duration
	idle        func() // nil: there is nothing to do

	mu      sync.Mutex
	signals *os.File // the end that is written to; nil: the guest does not take signals
	input   *os.File // likewise, of the standard input
}

// kind is what a handle is.
type kind byte

const (
	listener kind = iota
	connection
	pipe
)

// handle is a descriptor of the host's that the guest has. The host's never blocks.
type handle struct {
	kind     kind
	fd       int
	nonblock bool // what the guest asked for: its calls return at once

	// What the waiter knows of it.
	wanted, watched uint32
	round           uint64
}

type tableKey struct{}

// With has the functions of WASI that are called with this context use the table.
func With(ctx context.Context, t *Table) context.Context {
	return context.WithValue(ctx, tableKey{}, t)
}

func of(ctx context.Context) *Table {
	t, _ := ctx.Value(tableKey{}).(*Table)
	return t
}

// Given returns how many descriptors from [First] on are the table's. The engine must not
// use them.
func (t *Table) Given() int { return len(t.given) }

// TakeSignals gives the guest a pipe from which it reads the number of each signal that is
// sent to it, a byte each, and returns its descriptor. It does not block at first.
func (t *Table) TakeSignals() (descriptor int, err error) {
	h, w, err := newPipe()
	if err != nil {
		return 0, err
	}
	h.nonblock = true
	t.signals = w
	t.given = append(t.given, h)
	return First + len(t.given) - 1, nil
}

// ErrNotRead is the error where the guest takes no signals, or has not read those before.
var ErrNotRead = errors.New("the program does not read its signals")

// Signal sends a signal's number to the guest. It may be called at any time.
func (t *Table) Signal(number byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.signals == nil {
		return ErrNotRead
	}
	raw, err := t.signals.SyscallConn()
	if err != nil {
		return err
	}
	writeErr := error(nil)
	if err := raw.Control(func(fd uintptr) { _, writeErr = unix.Write(int(fd), []byte{number}) }); err != nil {
		return err
	}
	if writeErr != nil {
		return ErrNotRead
	}
	return nil
}

// ReadFrom makes what r returns the guest's standard input. A Read may be under way when
// the table is closed: the owner of r ends it.
func (t *Table) ReadFrom(r io.Reader) error {
	h, w, err := newPipe()
	if err != nil {
		return err
	}
	t.stdin, t.input = h, w
	go func() {
		_, _ = io.Copy(w, r) // the guest's end is all that can fail, and its business
		_ = w.Close()
	}()
	return nil
}

// newPipe returns a pipe: the guest's end, and the host's.
func newPipe() (*handle, *os.File, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	return &handle{kind: pipe, fd: p[0]}, os.NewFile(uintptr(p[1]), "pipe"), nil
}

// WhenIdle has do called once, on the guest's goroutine, when the guest has waited so long at
// once for its descriptors.
func (t *Table) WhenIdle(after time.Duration, do func()) { t.idleAfter, t.idle = after, do }

// find returns the handle of a descriptor, and whether that is the table's at all: a
// handle that is nil is closed.
func (t *Table) find(descriptor int32) (h *handle, ours bool) {
	switch {
	case descriptor == standardInput:
		return t.stdin, t.input != nil
	case descriptor >= firstConnection:
		if i := int(descriptor - firstConnection); i < len(t.connections) {
			h = t.connections[i]
		}
		return h, true
	case descriptor >= First && int(descriptor-First) < len(t.given):
		return t.given[descriptor-First], true
	}
	return nil, false
}

// add gives the guest a connection, and returns its descriptor: the lowest that is free.
func (t *Table) add(h *handle) int32 {
	t.open++
	for i, there := range t.connections {
		if there == nil {
			t.connections[i] = h
			return int32(firstConnection + i)
		}
	}
	t.connections = append(t.connections, h)
	return int32(firstConnection + len(t.connections) - 1)
}

// close closes one descriptor of the guest's.
func (t *Table) close(descriptor int32) {
	h, _ := t.find(descriptor)
	t.release(h)
	switch {
	case descriptor == standardInput:
		t.stdin = nil
	case descriptor >= firstConnection:
		t.connections[descriptor-firstConnection] = nil
		t.open--
	default:
		t.given[descriptor-First] = nil
	}
}

// release closes a handle, unless that is nil.
func (t *Table) release(h *handle) {
	if h == nil {
		return
	}
	t.waiter.forget(h)
	_ = unix.Close(h.fd)
	if h.kind == connection {
		allOpen.Add(-1)
	}
}

// Close closes all descriptors. The guest has ended.
func (t *Table) Close() {
	for _, h := range t.given {
		t.release(h)
	}
	for _, h := range t.connections {
		t.release(h)
	}
	t.release(t.stdin)
	t.given, t.connections, t.stdin = nil, nil, nil
	t.waiter.close()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range []*os.File{t.signals, t.input} {
		if f != nil {
			_ = f.Close()
		}
	}
	t.signals = nil
}
