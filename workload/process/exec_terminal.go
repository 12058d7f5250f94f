package process

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/workload"
)

// openTerminal returns our end of a new terminal, and the end that a command gets.
// That one belongs to the command's user, who may open it again by its name.
func openTerminal(o *origin, size workload.Size) (ours, theirs *os.File, err error) {
	if ours, err = o.terminalMaker(); err != nil {
		return nil, nil, err
	}
	if theirs, err = otherEnd(ours); err == nil {
		err = prepareTerminal(theirs, size, o.credential)
	}
	if err != nil {
		_ = ours.Close() // nothing was written to it
		if theirs != nil {
			_ = theirs.Close()
		}
		return nil, nil, err
	}
	return ours, theirs, nil
}

// openNonblocking opens a device for goroutines to wait for.
func openNonblocking(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), "terminal"), nil
}

// otherEnd opens a terminal's other end by the descriptor of the first: its path may be
// anything in this mount namespace.
func otherEnd(ours *os.File) (theirs *os.File, err error) {
	raw, err := ours.SyscallConn()
	if err != nil {
		return nil, err
	}
	controlErr := raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err != nil {
			err = os.NewSyscallError("unlock a terminal", err)
			return
		}
		other, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
		if errno != 0 {
			err = os.NewSyscallError("open a terminal's other end", errno)
			return
		}
		theirs = os.NewFile(other, "terminal")
	})
	return theirs, errors.Join(err, controlErr)
}

func prepareTerminal(f *os.File, size workload.Size, user *syscall.Credential) error {
	if user != nil {
		if err := f.Chown(int(user.Uid), -1); err != nil { // the group is that of all terminals
			return err
		}
	}
	if size == (workload.Size{}) {
		size = workload.DefaultSize
	}
	return resize(f, size)
}

// resize sets a terminal's size, by either end, and signals the processes in its
// foreground.
func resize(f *os.File, size workload.Size) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var sizeErr error
	err = raw.Control(func(fd uintptr) {
		sizeErr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Columns})
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("size of a terminal", sizeErr)
}
