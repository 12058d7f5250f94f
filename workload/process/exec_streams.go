package process

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/workload"
)

// execStreams are both ends of what a command reads and writes.
type execStreams struct {
	theirs   [3]*os.File // standard input, output and error
	terminal *os.File    // nil: there is none
	stdin    *os.File    // nil: it is empty
	outputs  []execOutput
	done     chan struct{} // closed by close
}

// execOutput is our end of what a command writes.
type execOutput struct {
	from *os.File
	to   io.Writer // nil: it is dropped
}

func openExecStreams(spec *workload.ExecSpec, o *origin) (*execStreams, error) {
	s := &execStreams{done: make(chan struct{})}
	open := s.openPipes
	if spec.TTY {
		open = func(spec *workload.ExecSpec) error { return s.openTerminal(spec, o) }
	}
	if err := open(spec); err != nil {
		s.close()
		return nil, noFiles(err)
	}
	return s, nil
}

func (s *execStreams) openTerminal(spec *workload.ExecSpec, o *origin) error {
	ours, theirs, err := openTerminal(o, spec.Size)
	if err != nil {
		return err
	}
	s.terminal, s.outputs = ours, []execOutput{{ours, spec.Stdout}}
	if spec.Stdin != nil {
		s.stdin = ours
	}
	s.theirs = [3]*os.File{theirs, theirs, theirs}
	return nil
}

func (s *execStreams) openPipes(spec *workload.ExecSpec) (err error) {
	if spec.Stdin == nil {
		s.theirs[0], err = os.Open(os.DevNull)
	} else {
		s.theirs[0], s.stdin, err = pipe(writing)
	}
	for i, to := range []io.Writer{spec.Stdout, spec.Stderr} {
		if err != nil {
			return err
		}
		var from *os.File
		if s.theirs[i+1], from, err = pipe(reading); err == nil {
			s.outputs = append(s.outputs, execOutput{from, to})
		}
	}
	return err
}

// What we do with a pipe, as the index of its end.
const (
	reading = 0
	writing = 1
)

// pipe returns both ends of a new pipe: theirs, which blocks, and ours, which has
// goroutines wait.
func pipe(ours int) (theirEnd, ourEnd *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe", err)
	}
	return os.NewFile(uintptr(fds[1-ours]), "pipe"), pollable(fds[ours], "pipe"), nil
}

// closeTheirs closes what the command has got. A terminal is one file for all streams.
func (s *execStreams) closeTheirs() {
	for i, f := range s.theirs {
		if f != nil && (i == 0 || f != s.theirs[0]) {
			_ = f.Close() // nothing was written to it here
		}
	}
	s.theirs = [3]*os.File{}
}

// close closes our ends, and what of theirs is open.
func (s *execStreams) close() {
	close(s.done)
	s.closeTheirs()
	for _, o := range s.outputs {
		_ = o.from.Close() // nothing is written to it that matters by now
	}
	if s.stdin != nil {
		_ = s.stdin.Close() // the command has ended
	}
}

// copy begins to copy. The function that it returns is called when the command has
// ended; it returns when all output is with its writer. A writer that fails has the
// command end.
func (s *execStreams) copy(spec *workload.ExecSpec, kill func()) (ended func() error) {
	if s.stdin != nil {
		go s.copyStdin(spec.Stdin)
	}
	if s.terminal != nil && spec.Resize != nil {
		go s.resize(spec.Resize)
	}
	var copying sync.WaitGroup
	errs := make([]error, len(s.outputs))
	for i, o := range s.outputs {
		copying.Go(func() {
			if errs[i] = o.copy(); errs[i] != nil {
				kill()
			}
		})
	}
	return func() error {
		for _, o := range s.outputs {
			_ = o.from.SetReadDeadline(time.Now().Add(outputTimeout)) // it is open, and can have one
		}
		copying.Wait()
		return errors.Join(errs...)
	}
}

// endOfInput is ^D, which has a terminal hand over what was typed of a line; nothing
// handed over is the end.
const endOfInput = "\x04"

// copyStdin copies until either side ends.
func (s *execStreams) copyStdin(from io.Reader) {
	to := &lastByte{w: s.stdin, last: '\n'}
	_, err := io.Copy(to, from)
	switch {
	case s.terminal == nil:
		_ = s.stdin.Close() // all was written
	case err != nil:
	case to.last == '\n':
		_, _ = io.WriteString(s.stdin, endOfInput) // a command that has ended needs none
	default:
		_, _ = io.WriteString(s.stdin, endOfInput+endOfInput)
	}
}

// lastByte remembers the last byte that was written.
type lastByte struct {
	w    io.Writer
	last byte
}

// Write implements [io.Writer].
func (l *lastByte) Write(b []byte) (int, error) {
	if len(b) > 0 {
		l.last = b[len(b)-1]
	}
	return l.w.Write(b)
}

// resize applies sizes until the command has ended.
func (s *execStreams) resize(sizes <-chan workload.Size) {
	for {
		select {
		case size, ok := <-sizes:
			if !ok {
				return
			}
			_ = resize(s.terminal, size) // it may be closed by now
		case <-s.done:
			return
		}
	}
}

// copy copies until every process has closed its end, or until the deadline for
// reading; also then nothing is lost that was written before.
func (o *execOutput) copy() error {
	buffer := drainBuffers.Get().(*[32 << 10]byte)
	defer drainBuffers.Put(buffer)
	for {
		n, err := o.from.Read(buffer[:])
		if writeErr := o.write(buffer[:n]); writeErr != nil {
			return writeErr
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return o.copyRest(buffer[:])
		default:
			return nil // of a terminal, the end is EIO
		}
	}
}

// maxRest bounds what is read after the end: a pipe holds at most as much.
const maxRest = 1 << 20

// copyRest copies what is there already: the writer at the other end is not waited for.
func (o *execOutput) copyRest(buffer []byte) error {
	raw, err := o.from.SyscallConn()
	if err != nil {
		return err
	}
	for copied := 0; copied < maxRest; {
		var n int
		err := raw.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buffer) }) // it does not block
		if err != nil || n <= 0 {
			return err
		}
		if err := o.write(buffer[:n]); err != nil {
			return err
		}
		copied += n
	}
	return nil
}

func (o *execOutput) write(b []byte) error {
	if o.to == nil || len(b) == 0 {
		return nil
	}
	_, err := o.to.Write(b)
	return err
}
