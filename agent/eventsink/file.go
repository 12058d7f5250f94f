package eventsink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/wasmnode/wasmnode/internal/durable"
	"github.com/wasmnode/wasmnode/workload/logfile"
)

// File appends lines to files PATH.0, PATH.1 and so on, the highest number being the newest.
type File struct {
	path   string
	writer *logfile.Writer
	failed bool // the last line could not be written, or not all of it
	synced int  // the files before this one are synced
}

// OpenFile opens the newest file, or makes a first one, and its directory. A file gets at most
// bytes long, and at most files are kept, for their owner and group alone: events have
// whole jobs in them. A line that does not fit into one goes on in the next.
func OpenFile(path string, files int, bytes int64) (*File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	f := &File{path: path}
	torn, err := f.torn()
	if err != nil {
		return nil, err
	}
	if f.writer, err = logfile.OpenPrivate(path, files, bytes); err != nil {
		return nil, err
	}
	if torn { // what the agent was killed in the midst of is a line of its own, and is told again
		if _, err = f.writer.Write([]byte("\n")); err != nil {
			return nil, errors.Join(err, f.writer.Close())
		}
	}
	return f, nil
}

// torn reports whether the newest file ends within a line.
func (f *File) torn() (bool, error) {
	numbers, err := logfile.Numbers(f.path)
	if err != nil || len(numbers) == 0 {
		return false, err
	}
	newest, err := os.Open(logfile.Path(f.path, numbers[len(numbers)-1]))
	if err != nil {
		return false, err
	}
	defer newest.Close()
	size, err := newest.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return false, err
	}
	last := make([]byte, 1)
	_, err = newest.ReadAt(last, size-1)
	return last[0] != '\n', err
}

// Deliver implements [Receiver]. What was written of a line when a disk is full stays, as a line of
// its own, and the line is written again.
func (f *File) Deliver(_ context.Context, _ string, line []byte) error {
	text := append(line[:len(line):len(line)], '\n')
	if f.failed {
		switch torn, err := f.torn(); {
		case err != nil:
			return err
		case torn:
			text = append([]byte("\n"), text...)
		}
	}
	f.failed = true
	if _, err := f.writer.Write(text); err != nil {
		return err
	}
	if err := f.writer.Err(); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.failed = false
	return nil
}

// Sync implements [Receiver].
func (f *File) Sync() error {
	numbers, err := logfile.Numbers(f.path)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if n < f.synced {
			continue
		}
		if err := syncFile(logfile.Path(f.path, n)); err != nil {
			return err
		}
		f.synced = n
	}
	return durable.SyncDir(filepath.Dir(f.path))
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Close implements [Receiver].
func (f *File) Close() error { return f.writer.Close() }
