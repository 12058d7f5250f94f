package logfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// ChunkBytes is the most that one [Chunk] carries.
const ChunkBytes = 64 << 10

// Chunk is a piece of a log.
type Chunk struct {
	File   string // the file's name, with its number
	Data   []byte // valid until send returns; at most ChunkBytes
	Offset int64  // in that file, after Data
}

// Options select what to read of a log.
type Options struct {
	// Offset counts bytes, from the oldest file's start or from the newest one's end.
	// Beyond the log it means its other end; a negative one means 0.
	Offset  int64
	FromEnd bool
	// NewestFile begins with the newest file, whatever Offset is.
	NewestFile bool
	// Follow goes on with what is written later, until ctx is done or Stop is closed.
	Follow bool
	// Stop, when it is closed, ends following once all that was written is read: the
	// task has ended.
	Stop <-chan struct{}
}

// Follow sends a log's content to send, piece by piece, in the order it was written,
// across rotations. It returns when all is sent, when send fails (its error), when
// ctx is done (nil) or when the log's directory is removed (nil). A reader that is
// slower than the rotation misses what was removed and goes on with the oldest file
// that there is. A log that is not there yet is empty; following one needs its
// directory, though ([os.ErrNotExist]).
//
// A follower takes one of the system's inotify instances (128 per user unless
// configured otherwise); when there is none left, following fails.
func Follow(ctx context.Context, base string, opts Options, send func(Chunk) error) error {
	r := &reader{base: base, number: -1, send: send}
	if !opts.Follow {
		err := r.seek(opts)
		if err == nil {
			err = r.drain(ctx)
		}
		return withoutMissing(err)
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("log %s: follow: %w", base, err)
	}
	defer func() { _ = watcher.Close() }()
	// Before the first read, so that nothing is written unseen in between. The directory
	// above reports a removal at once; the log's own only when no file in it is open.
	dir := filepath.Dir(base)
	for _, watched := range []string{dir, filepath.Dir(dir)} {
		if err := watcher.Add(watched); err != nil {
			return fmt.Errorf("log %s: follow: %w", base, err)
		}
	}
	if err := r.seek(opts); err != nil {
		return err
	}
	return withoutMissing(r.follow(ctx, watcher, opts.Stop))
}

// withoutMissing drops the error of a directory that is not there.
func withoutMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// reader is a position in a log. It keeps nothing open between two reads.
type reader struct {
	base   string
	send   func(Chunk) error
	number int // -1: before the oldest file
	offset int64
	buf    []byte
}

// follow sends what there is, and what comes.
func (r *reader) follow(ctx context.Context, watcher *fsnotify.Watcher, stop <-chan struct{}) error {
	for {
		ended := closed(stop)
		if err := r.drain(ctx); err != nil {
			return err
		}
		if ended || ctx.Err() != nil {
			return nil
		}
		removed, err := r.await(ctx, watcher, stop)
		if removed || err != nil {
			return err
		}
	}
}

// await blocks until there may be more to read. What else happens in the directory,
// such as another task's log, is passed over.
func (r *reader) await(ctx context.Context, watcher *fsnotify.Watcher, stop <-chan struct{}) (removed bool, err error) {
	dir, prefix := filepath.Dir(r.base), filepath.Base(r.base)+"."
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case <-stop:
			return false, nil
		case event := <-watcher.Events:
			if event.Name == dir && (event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename)) {
				return true, nil
			}
			if _, ok := numberOf(filepath.Base(event.Name), prefix); ok {
				return false, nil
			}
		case err := <-watcher.Errors:
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				return false, nil // events were lost: look
			}
			return false, err
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// seek moves to where the options start.
func (r *reader) seek(opts Options) error {
	root, err := openDir(r.base)
	if err != nil {
		return err
	}
	defer root.Close()
	l, err := list(root, r.base)
	if err != nil || len(l.regular) == 0 {
		return err
	}
	if opts.NewestFile {
		r.number, r.offset = l.regular[len(l.regular)-1], 0
		return nil
	}
	sizes := make([]int64, len(l.regular))
	var total int64
	for i, n := range l.regular {
		if info, err := root.Lstat(fileName(r.base, n)); err == nil {
			sizes[i] = info.Size()
			total += sizes[i]
		}
	}
	at := min(max(opts.Offset, 0), total)
	if opts.FromEnd {
		at = total - at
	}
	for i, n := range l.regular {
		r.number, r.offset = n, at
		if at <= sizes[i] {
			return nil
		}
		at -= sizes[i]
	}
	return nil
}

// drain sends all that is there now.
func (r *reader) drain(ctx context.Context) error {
	root, err := openDir(r.base)
	if err != nil {
		return err
	}
	defer root.Close()
	for ctx.Err() == nil {
		if err := r.drainFile(ctx, root); err != nil {
			return err
		}
		next, err := r.next(root)
		if err != nil || next < 0 {
			return err
		}
		// A file has its last byte before its successor is made: read the rest.
		if err := r.drainFile(ctx, root); err != nil {
			return err
		}
		r.number, r.offset = next, 0
	}
	return nil
}

// next returns the number of the file after the current one; -1: there is none.
func (r *reader) next(root *os.Root) (int, error) {
	l, err := list(root, r.base)
	if err != nil {
		return -1, err
	}
	for _, n := range l.regular {
		if n > r.number {
			return n, nil
		}
	}
	return -1, nil
}

// drainFile sends the rest of the current file; one that was rotated away is over.
func (r *reader) drainFile(ctx context.Context, root *os.Root) error {
	if r.number < 0 {
		return nil
	}
	f, err := openRegular(root, r.base, r.number, os.O_RDONLY, 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, errNotRegular) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() < r.offset {
		r.offset = 0 // truncated by another process: what is in it now is new
	}
	if r.buf == nil {
		r.buf = make([]byte, ChunkBytes)
	}
	for ctx.Err() == nil {
		n, err := f.ReadAt(r.buf, r.offset)
		if n > 0 {
			r.offset += int64(n)
			c := Chunk{File: fileName(r.base, r.number), Data: r.buf[:n], Offset: r.offset}
			if err := r.send(c); err != nil {
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
