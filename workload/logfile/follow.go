package logfile

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// chunkBytes is the most that one [Chunk] carries.
const chunkBytes = 64 << 10

// Chunk is a piece of a log.
type Chunk struct {
	File   string // the file's name, with its number
	Data   []byte
	Offset int64 // in that file, after Data
}

// Options say what to read of a log.
type Options struct {
	// Offset counts bytes, from the oldest file's start or from the newest one's end.
	Offset  int64
	FromEnd bool
	// Follow goes on with what is written later, until ctx is done or stop is closed.
	Follow bool
	// Stop, when it is closed, ends following once all that was written is read: the
	// task has ended.
	Stop <-chan struct{}
}

// Follow sends a log's content to send, piece by piece, in the order it was written,
// across rotations. It returns when all is sent, when send fails (its error), or when
// ctx is done (nil). A log that is not there yet is empty.
func Follow(ctx context.Context, base string, opts Options, send func(Chunk) error) error {
	watcher, err := watch(base, opts.Follow)
	if err != nil {
		return err
	}
	if watcher != nil {
		defer watcher.Close()
	}
	r := &reader{base: base, number: -1}
	if err := r.seek(opts); err != nil {
		return err
	}
	stop := opts.Stop
	for {
		ended := closed(stop)
		if err := r.drain(ctx, send); err != nil {
			return err
		}
		if !opts.Follow || ended || ctx.Err() != nil {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-stop:
		case <-watcher.Events:
		case err := <-watcher.Errors:
			return err
		}
	}
}

// watch watches the log's directory, so that rotations are seen too.
func watch(base string, follow bool) (*fsnotify.Watcher, error) {
	if !follow {
		return nil, nil
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := w.Add(filepath.Dir(base)); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// reader is a position in a log.
type reader struct {
	base   string
	number int // -1: before the oldest file
	offset int64
}

// seek moves to where the options say.
func (r *reader) seek(opts Options) error {
	numbers, err := Numbers(r.base)
	if err != nil || len(numbers) == 0 {
		return err
	}
	sizes := make([]int64, len(numbers))
	var total int64
	for i, n := range numbers {
		if info, err := os.Stat(Path(r.base, n)); err == nil {
			sizes[i] = info.Size()
			total += sizes[i]
		}
	}
	at := min(max(opts.Offset, 0), total)
	if opts.FromEnd {
		at = total - at
	}
	for i, n := range numbers {
		r.number, r.offset = n, at
		if at <= sizes[i] {
			return nil
		}
		at -= sizes[i]
	}
	return nil
}

// drain sends all that is there now.
func (r *reader) drain(ctx context.Context, send func(Chunk) error) error {
	for ctx.Err() == nil {
		if err := r.drainFile(ctx, send); err != nil {
			return err
		}
		next, err := r.next()
		if err != nil || next < 0 {
			return err
		}
		// A file has its last byte before its successor is made: read the rest.
		if err := r.drainFile(ctx, send); err != nil {
			return err
		}
		r.number, r.offset = next, 0
	}
	return nil
}

// next returns the number of the file after the current one; -1: there is none.
func (r *reader) next() (int, error) {
	numbers, err := Numbers(r.base)
	if err != nil {
		return -1, err
	}
	for _, n := range numbers {
		if n > r.number {
			return n, nil
		}
	}
	return -1, nil
}

// drainFile sends the rest of the current file; one that was rotated away is over.
func (r *reader) drainFile(ctx context.Context, send func(Chunk) error) error {
	if r.number < 0 {
		return nil
	}
	f, err := os.Open(Path(r.base, r.number))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, chunkBytes)
	for ctx.Err() == nil {
		n, err := f.ReadAt(buf, r.offset)
		if n > 0 {
			r.offset += int64(n)
			c := Chunk{File: filepath.Base(f.Name()), Data: append([]byte(nil), buf[:n]...), Offset: r.offset}
			if err := send(c); err != nil {
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
