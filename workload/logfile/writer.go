package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/wasmnode/wasmnode/internal/failpoint"
)

// Writer appends to the newest file of a log and starts another when that is full.
// It never blocks a program on its log and never fails it: what cannot be written is
// dropped and counted. It is safe for concurrent use, and several writers may have
// the same log open, in this process or in others; then a file exceeds its bound by
// at most one write of each.
type Writer struct {
	base     string
	maxFiles int
	maxBytes int64
	onError  func(error)
	mode     os.FileMode // of files that are made

	mu      sync.Mutex
	file    *os.File // nil: it could not be opened
	number  int
	size    int64
	err     error
	dropped uint64
	closed  bool
}

// Open opens the log BASE for appending, where an earlier writer left off. maxFiles
// and maxBytes are at least 1. The directory must exist.
func Open(base string, maxFiles int, maxBytes int64) (*Writer, error) {
	return OpenReporting(base, maxFiles, maxBytes, nil)
}

// OpenReporting is [Open] for a writer that calls onError when writing begins to fail:
// once until it works again. onError is called from within Write, with no lock held.
func OpenReporting(base string, maxFiles int, maxBytes int64, onError func(error)) (*Writer, error) {
	return open(&Writer{base: base, maxFiles: maxFiles, maxBytes: maxBytes, onError: onError, mode: 0o644})
}

// OpenPrivate is [Open] for a log that only its owner and its group may read.
func OpenPrivate(base string, maxFiles int, maxBytes int64) (*Writer, error) {
	return open(&Writer{base: base, maxFiles: maxFiles, maxBytes: maxBytes, mode: 0o640})
}

func open(w *Writer) (*Writer, error) {
	if w.maxFiles < 1 || w.maxBytes < 1 {
		return nil, fmt.Errorf("log %s: at least one file of at least one byte, not %d of %d", w.base, w.maxFiles, w.maxBytes)
	}
	if err := w.openNewest(); err != nil {
		return nil, fmt.Errorf("log %s: %w", w.base, err)
	}
	return w, nil
}

// Write appends p, rotating as needed. It reports p as written in any case: a task
// does not end because its log does. The error is [os.ErrClosed] or nil.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return 0, os.ErrClosed
	}
	n, err := w.append(p)
	w.dropped += uint64(len(p) - n)
	began := w.err == nil && err != nil
	w.err = err
	w.mu.Unlock()
	if began && w.onError != nil {
		w.onError(err)
	}
	return len(p), nil
}

// append writes what it can of p.
func (w *Writer) append(p []byte) (written int, err error) {
	if len(p) == 0 {
		return 0, w.err
	}
	if err := w.catchUp(); err != nil {
		return 0, err
	}
	for written < len(p) {
		chunk := p[written:][:w.fits(p[written:])]
		if len(chunk) == 0 {
			if err := w.rotate(); err != nil {
				return written, err
			}
			continue
		}
		n, err := w.file.Write(chunk)
		written += n
		w.size += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// catchUp makes the open file the log's newest: it may have been removed, appended
// to or rotated by others.
func (w *Writer) catchUp() error {
	if w.file == nil {
		return w.openNewest()
	}
	info, err := w.file.Stat()
	if err != nil {
		return err
	}
	w.size = info.Size()
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink == 0 {
		return w.openNewest()
	}
	if next, err := os.Lstat(Path(w.base, w.number+1)); err == nil && next.Mode().IsRegular() {
		return w.openNewest()
	}
	return nil
}

// fits returns how much of p belongs into the current file: up to the last line end
// that fits, all that fits when the file is empty and no line does, and nothing when
// the file is to be rotated first.
func (w *Writer) fits(p []byte) int {
	room := w.maxBytes - w.size
	if int64(len(p)) <= room {
		return len(p)
	}
	if room <= 0 {
		return 0
	}
	if i := bytes.LastIndexByte(p[:room], '\n'); i >= 0 {
		return i + 1
	}
	if w.size > 0 && int64(len(p)) <= w.maxBytes {
		return 0
	}
	return int(room)
}

// openNewest opens the newest file, or a first one.
func (w *Writer) openNewest() error {
	return w.reopen(func(l listing) int {
		if n := l.newest(); n >= 0 && n == l.highest {
			return n
		}
		return l.highest + 1
	})
}

// rotate starts the file after the current one. What is not a file is passed over.
func (w *Writer) rotate() error {
	current := w.number
	return w.reopen(func(l listing) int {
		if l.highest <= current {
			return current + 1
		}
		if n := l.newest(); n == l.highest {
			return n // another writer rotated, or another process made it
		}
		return l.highest + 1
	})
}

// reopen opens the file that choose names and removes the oldest ones. On an error
// the writer keeps the file that it has.
func (w *Writer) reopen(choose func(listing) int) error {
	root, err := openDir(w.base)
	if err != nil {
		return err
	}
	defer root.Close()
	l, err := list(root, w.base)
	if err != nil {
		return err
	}
	number := choose(l)
	if number > MaxNumber {
		return errNoNumber
	}
	failpoint.Here("log.open")
	f, err := openRegular(root, w.base, number, os.O_WRONLY|os.O_CREATE|os.O_APPEND, w.mode)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	if w.file != nil {
		// Before anything is removed: what is counted from an old file goes on in this one.
		err = w.carryMark(root, number)
		w.file.Close()
	}
	w.file, w.number, w.size = f, number, info.Size()
	if err != nil {
		return err
	}
	if len(l.regular) < w.maxFiles {
		return nil // with this file, too, there are no more than to be kept
	}
	return w.prune(root)
}

// prune removes the oldest files beyond the number to keep.
func (w *Writer) prune(root *os.Root) error {
	l, err := list(root, w.base)
	if err != nil {
		return err
	}
	for _, n := range l.regular[:max(0, len(l.regular)-w.maxFiles)] {
		if err := root.Remove(fileName(w.base, n)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Err returns why the latest write did not reach the file whole; nil: it did.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Dropped returns how many bytes could not be written so far.
func (w *Writer) Dropped() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}

// Close closes the log. It is idempotent.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}
