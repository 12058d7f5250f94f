// Package regularfile reads files that others have put where they are: whatever is there in a
// file's place, nobody is waited for and no more is read than the caller has room for.
//
// It must never know what is in the files. Start reading at [Read].
package regularfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrKind is of what is no regular file.
var ErrKind = errors.New("not a regular file")

// Open opens a regular file for reading, and returns what it is. The error is one line
// that names the file, and one of [ErrKind] if it is something else. To open a pipe without
// O_NONBLOCK would be to wait for who writes to it.
func Open(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, ErrKind)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// Read reads a regular file of at most limit bytes, and one byte more of a file that grows
// meanwhile. The error is one line that names the file.
func Read(path string, limit int64) ([]byte, error) {
	f, info, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > limit {
		return nil, fmt.Errorf("%s: it has %d bytes, the limit is %d", path, info.Size(), limit)
	}
	return io.ReadAll(io.LimitReader(f, limit+1))
}
