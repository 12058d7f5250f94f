package supervisor

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/wasmnode/wasmnode/abi"
)

// The frames of a connection on which a command runs. Each is a byte of its kind, four
// of its payload's length, the highest first, and the payload.
const (
	// From the client.
	frameStdin    = 1
	frameStdinEnd = 2
	frameSize     = 3 // JSON of a workload.Size
	// From the server.
	frameStdout = 11
	frameStderr = 12
	frameExit   = 13 // JSON of a structs.ExitResult; the last one
	frameError  = 14 // JSON of an abi.Error; the last one
	frameAlive  = 15 // nothing; it finds out that the client has gone
)

const frameHeader = 5

// maxFrame bounds a payload.
const maxFrame = 64 << 10

// connectionError is an error of the connection, not of what it carries.
type connectionError struct{ error }

// Unwrap returns the cause.
func (e *connectionError) Unwrap() error { return e.error }

// frameReader reads frames.
type frameReader struct {
	r       *bufio.Reader
	payload []byte
}

func newFrameReader(r io.Reader) *frameReader { return &frameReader{r: bufio.NewReader(r)} }

// next returns the next frame. Its payload is good until the next call. io.EOF: there
// are no more.
func (f *frameReader) next() (kind byte, payload []byte, err error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(f.r, header[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(header[1:])
	if size > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes, the limit is %d", size, maxFrame)
	}
	if f.payload == nil {
		f.payload = make([]byte, maxFrame)
	}
	payload = f.payload[:size]
	if _, err := io.ReadFull(f.r, payload); err != nil {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return header[0], payload, nil
}

// frameWriter writes frames. It is safe for concurrent use.
type frameWriter struct {
	mu     sync.Mutex
	w      io.Writer
	buffer []byte
}

// write writes one frame, whose payload is at most [maxFrame] long.
func (f *frameWriter) write(kind byte, payload []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buffer = append(f.buffer[:0], kind)
	f.buffer = binary.BigEndian.AppendUint32(f.buffer, uint32(len(payload)))
	f.buffer = append(f.buffer, payload...)
	if _, err := f.w.Write(f.buffer); err != nil {
		return &connectionError{err}
	}
	return nil
}

func (f *frameWriter) writeJSON(kind byte, v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return f.write(kind, payload)
}

// stream returns a writer whose bytes become frames of a kind.
func (f *frameWriter) stream(kind byte) io.Writer { return &frameStream{f, kind} }

type frameStream struct {
	frames *frameWriter
	kind   byte
}

// Write implements [io.Writer].
func (s *frameStream) Write(b []byte) (int, error) {
	for written := 0; written < len(b); {
		piece := b[written:min(len(b), written+maxFrame)]
		if err := s.frames.write(s.kind, piece); err != nil {
			return written, err
		}
		written += len(piece)
	}
	return len(b), nil
}

func unmarshal(payload []byte, into any) error {
	if err := json.Unmarshal(payload, into); err != nil {
		return abi.NewError(abi.Internal, fmt.Sprintf("the supervisor of workloads: %v", err))
	}
	return nil
}
