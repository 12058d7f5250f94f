// Package recent keeps the latest of what happens, within a bound in bytes, for readers that
// follow it at their own pace: one that is too slow loses the oldest, and is told how many. It
// knows nothing of what it keeps. Start reading at [List].
package recent

import (
	"context"
	"errors"
	"sync"
)

// List keeps the latest entries. It is safe for concurrent use.
type List[T any] struct {
	bound int // bytes

	mu      sync.Mutex
	entries []entry[T]
	begun   uint64 // the number of the first entry
	bytes   int
	changed chan struct{} // closed with the next entry; nil: nobody waits
}

type entry[T any] struct {
	value T
	bytes int
}

// New returns a list that keeps as many of the latest entries as have at most so many bytes
// together, and the latest one in any case.
func New[T any](bound int) *List[T] { return &List[T]{bound: bound} }

// Add adds an entry of a size in bytes. It never waits for a reader.
func (l *List[T]) Add(value T, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, entry[T]{value, bytes})
	l.bytes += bytes
	for len(l.entries) > 1 && l.bytes > l.bound {
		l.bytes -= l.entries[0].bytes
		l.entries[0] = entry[T]{} // so that it is not kept
		l.entries = l.entries[1:]
		l.begun++
	}
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Last returns a reader that begins with the last n entries that are kept.
func (l *List[T]) Last(n int) *Reader[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &Reader[T]{list: l, next: l.begun + uint64(max(0, len(l.entries)-max(0, n)))}
}

// Reader is a place in a list. It keeps nothing of it. One goroutine at a time uses it.
type Reader[T any] struct {
	list *List[T]
	next uint64
}

// ErrEnd is that there is no further entry now.
var ErrEnd = errors.New("there is no further entry")

// Read returns the next entry, and how many before it are lost to this reader, or [ErrEnd].
func (r *Reader[T]) Read() (value T, lost uint64, err error) {
	r.list.mu.Lock()
	defer r.list.mu.Unlock()
	return r.read()
}

func (r *Reader[T]) read() (value T, lost uint64, err error) {
	l := r.list
	if r.next < l.begun {
		lost, r.next = l.begun-r.next, l.begun
	}
	at := r.next - l.begun
	if at == uint64(len(l.entries)) {
		return value, lost, ErrEnd
	}
	r.next++
	return l.entries[at].value, lost, nil
}

// Wait is Read, but waits for an entry. The error is ctx's.
func (r *Reader[T]) Wait(ctx context.Context) (value T, lost uint64, err error) {
	for {
		r.list.mu.Lock()
		value, lost, err = r.read()
		if err == nil {
			r.list.mu.Unlock()
			return value, lost, nil
		}
		if r.list.changed == nil {
			r.list.changed = make(chan struct{})
		}
		changed := r.list.changed
		r.list.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return value, 0, ctx.Err()
		}
	}
}
