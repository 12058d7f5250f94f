package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Writer appends to the newest file of a log and starts another when that is full.
// It never blocks a program on its log and never fails it: what cannot be written is
// dropped, and the first error of a streak is kept for [Writer.Err]. It is safe for
// concurrent use.
type Writer struct {
	base     string
	maxFiles int
	maxBytes int64

	mu     sync.Mutex
	file   *os.File
	number int
	size   int64
	err    error
	closed bool
}

// Open opens the log BASE for appending, where an earlier writer left off. maxFiles
// and maxBytes are at least 1. The directory must exist.
func Open(base string, maxFiles int, maxBytes int64) (*Writer, error) {
	if maxFiles < 1 || maxBytes < 1 {
		return nil, fmt.Errorf("log %s: at least one file of at least one byte, not %d of %d", base, maxFiles, maxBytes)
	}
	w := &Writer{base: base, maxFiles: maxFiles, maxBytes: maxBytes}
	numbers, err := Numbers(base)
	if err != nil {
		return nil, err
	}
	if n := len(numbers); n > 0 {
		w.number = numbers[n-1]
	}
	if err := w.open(); err != nil {
		return nil, err
	}
	return w, nil
}

// open opens the current number's file.
func (w *Writer) open() error {
	f, err := os.OpenFile(Path(w.base, w.number), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	w.file, w.size = f, info.Size()
	return nil
}

// Write appends p, rotating as needed. It reports p as written in any case: a task
// does not end because its log does.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, os.ErrClosed
	}
	for rest := p; len(rest) > 0; {
		chunk := rest[:w.fits(rest)]
		if len(chunk) == 0 {
			if err := w.rotate(); err != nil {
				w.err = err
				break
			}
			continue
		}
		n, err := w.file.Write(chunk)
		w.size += int64(n)
		if w.err = err; err != nil {
			break
		}
		rest = rest[n:]
	}
	return len(p), nil
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

// rotate starts the next file and removes the oldest ones.
func (w *Writer) rotate() error {
	w.file.Close()
	w.number++
	if err := w.open(); err != nil {
		w.number--
		// Go on with the old file rather than with none.
		return errors.Join(err, w.open())
	}
	numbers, err := Numbers(w.base)
	if err != nil {
		return err
	}
	for _, n := range numbers[:max(0, len(numbers)-w.maxFiles)] {
		if err := os.Remove(Path(w.base, n)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Err returns why the latest write did not reach the disk; nil: it did.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close closes the log. It is idempotent.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	return w.file.Close()
}

// Path is the path of a log's file of that number.
func Path(base string, number int) string { return base + "." + strconv.Itoa(number) }

// Numbers returns the numbers of a log's files, ascending. A directory that is not
// there has none.
func Numbers(base string) ([]int, error) {
	entries, err := os.ReadDir(filepath.Dir(base))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	prefix := filepath.Base(base) + "."
	var numbers []int
	for _, e := range entries {
		tail, ok := strings.CutPrefix(e.Name(), prefix)
		if !ok {
			continue
		}
		// Atoi takes signs and leading zeroes, a log's number has neither.
		if n, err := strconv.Atoi(tail); err == nil && n >= 0 && strconv.Itoa(n) == tail {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}
