package process

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// drainPatience is how long output is waited for once all known processes have
// ended: what is in a pipe is read in far less.
const drainPatience = 2 * time.Second

// drainBuffers are borrowed while there is something to read, so that a task that
// says nothing costs no buffer.
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

// copyTo copies until every process has closed its end, or until the drain ends.
func (d *drain) copyTo(w io.Writer) {
	raw, err := d.file.SyscallConn()
	for ended := false; err == nil && !ended; {
		err = raw.Read(func(fd uintptr) bool {
			buffer := drainBuffers.Get().(*[32 << 10]byte)
			defer drainBuffers.Put(buffer)
			n, err := unix.Read(int(fd), buffer[:])
			switch {
			case errors.Is(err, unix.EAGAIN):
				return false
			case errors.Is(err, unix.EINTR):
			case n <= 0:
				ended = true
			default:
				_, _ = w.Write(buffer[:n]) // it counts what it drops
			}
			return true
		})
	}
}

// endAfter makes copying end.
func (d *drain) endAfter(t time.Duration) {
	_ = d.file.SetReadDeadline(time.Now().Add(t)) // it is open, and a pipe
}

func (d *drain) close() { _ = d.file.Close() } // nothing is written to it
