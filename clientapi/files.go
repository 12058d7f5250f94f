package clientapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs/errdefs"
	"github.com/wasmnode/wasmnode/workload/logfile"
)

// fileLook is how often it is looked whether a file that is followed has grown.
const fileLook = 250 * time.Millisecond

// What happens to a file that is followed, with Nomad's words.
const (
	fileDeleted   = "file deleted"
	fileTruncated = "file truncated"
)

// noType is the type of what has no content, or none that is known.
const noType = "application/octet-stream"

// Stat tells of a file or directory, with the type of its content, by which a page decides how to
// show it. Errors are those of [Files].
func Stat(files Files, path string) (*nomad.AllocFileInfo, error) {
	entry, err := files.Stat(path)
	if err != nil {
		return nil, err
	}
	info := FileInfo(entry)
	info.ContentType = noType
	if entry.Mode.IsRegular() {
		if file, err := files.ReadAt(path, 0); err == nil { // else it has gone meanwhile
			defer file.Close()
			const looked = 512
			start, _ := io.ReadAll(io.LimitReader(file, looked)) // what can be read of it
			info.ContentType = http.DetectContentType(start)
		}
	}
	return info, nil
}

// FileStream is a position in a file. It keeps nothing open between two looks. One goroutine at
// a time uses it.
type FileStream struct {
	files  Files
	path   string
	offset int64
	left   int64 // how many bytes may still be sent; negative: all
}

// OpenFile returns the position that the options name in a file, from where at most limit bytes
// are sent; 0: all. errdefs.InvalidArgument: it is a directory. Other errors are those of [Files].
func OpenFile(files Files, path string, opts logfile.Options, limit int64) (*FileStream, error) {
	s := &FileStream{files: files, path: path, left: limit}
	if limit <= 0 {
		s.left = -1
	}
	info, err := files.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir:
		return nil, invalid("file %q is a directory", path)
	case opts.FromEnd:
		s.offset = max(0, info.Size-opts.Offset)
	default:
		s.offset = min(info.Size, opts.Offset)
	}
	return s, nil
}

// Run sends what there is of the file; with follow, what is added to it, too, until it is removed
// or ctx is done, which is no error.
func (s *FileStream) Run(ctx context.Context, follow bool, to *Frames) error {
	defer to.Heartbeats(ctx)()
	look := time.NewTicker(fileLook)
	defer look.Stop()
	for {
		if err := s.drain(ctx, to); err != nil || !follow || s.left == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		info, err := s.files.Stat(s.path)
		switch {
		case errors.Is(err, errdefs.NotFound):
			return to.happened(s.path, fileDeleted)
		case err != nil:
			return err
		case info.Size < s.offset:
			s.offset = 0
			if err := to.happened(s.path, fileTruncated); err != nil {
				return err
			}
		}
	}
}

// drain sends what there is of the file from the position on.
func (s *FileStream) drain(ctx context.Context, to *Frames) error {
	f, err := s.files.ReadAt(s.path, s.offset)
	if errors.Is(err, errdefs.NotFound) {
		return nil // the next look tells it
	}
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, logfile.ChunkBytes)
	for ctx.Err() == nil && s.left != 0 {
		n, err := f.Read(s.piece(buf))
		if n > 0 {
			s.offset += int64(n)
			if s.left > 0 {
				s.left -= int64(n)
			}
			if err := to.Send(logfile.Chunk{File: s.path, Data: buf[:n], Offset: s.offset}); err != nil {
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

// piece is as much of a buffer as may still be sent.
func (s *FileStream) piece(buf []byte) []byte {
	if s.left < 0 {
		return buf
	}
	return buf[:min(int64(len(buf)), s.left)]
}
