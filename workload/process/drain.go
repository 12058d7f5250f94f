package process

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// drainTimeout is how long output is waited for once all known processes have
// ended: what is in a pipe is read in far less. A test changes it.
var drainTimeout = 2 * time.Second

// drainBuffers are borrowed while there is something to read, so that a task that
// writes nothing costs no buffer.
var drainBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// drain is our end of a pipe that a process writes to.
type drain struct {
	file *os.File
	fd   int // the file's, without making it block
}

// newDrain returns both ends of a new pipe. The caller closes the other.
func newDrain() (*drain, *os.File, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe", err)
	}
	return adoptDrain(fds[0]), os.NewFile(uintptr(fds[1]), "input"), nil
}

// adoptDrain returns the drain of an open pipe.
func adoptDrain(fd int) *drain { return &drain{pollable(fd, "output"), fd} }

// asFile is nil when there is none.
func (d *drain) asFile() *os.File {
	if d == nil {
		return nil
	}
	return d.file
}

// copyTo copies until every process has closed its end, or until the drain ends; also
// then nothing is lost that was written before, however late this goroutine has its turn.
func (d *drain) copyTo(w io.Writer) {
	raw, err := d.file.SyscallConn()
	for ended := false; err == nil && !ended; {
		err = raw.Read(func(fd uintptr) bool {
			n, err := copyOnce(w, int(fd))
			waits := errors.Is(err, unix.EAGAIN)
			ended = n <= 0 && !waits && !errors.Is(err, unix.EINTR)
			return !waits
		})
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	_ = raw.Control(func(fd uintptr) { // it is open still
		for copied := 0; copied < maxRest; {
			n, err := copyOnce(w, int(fd))
			if n <= 0 && !errors.Is(err, unix.EINTR) {
				return
			}
			copied += max(n, 0)
		}
	})
}

// copyOnce copies what one call reads, without waiting for it.
func copyOnce(w io.Writer, fd int) (n int, err error) {
	buffer := drainBuffers.Get().(*[32 << 10]byte)
	defer drainBuffers.Put(buffer)
	if n, err = unix.Read(fd, buffer[:]); n > 0 {
		_, _ = w.Write(buffer[:n]) // it counts what it drops
	}
	return n, err
}

// endAfter makes copying end.
func (d *drain) endAfter(t time.Duration) {
	_ = d.file.SetReadDeadline(time.Now().Add(t)) // it is open, and a pipe
}

func (d *drain) close() { _ = d.file.Close() } // nothing is written to it
