package process

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/workload"
)

// openTerminal returns our end of a new terminal, and the end that a command gets.
// That one belongs to the command's user, who may open it again by its name.
func openTerminal(size workload.Size, user *syscall.Credential) (ours, theirs *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("open /dev/ptmx", err)
	}
	ours = os.NewFile(uintptr(fd), "terminal")
	if theirs, err = otherEnd(fd); err == nil {
		err = prepareTerminal(theirs, size, user)
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

// otherEnd opens a terminal's other end by the descriptor of the first: its path may be
// anything in this mount namespace.
func otherEnd(fd int) (*os.File, error) {
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, os.NewSyscallError("unlock a terminal", err)
	}
	other, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return nil, os.NewSyscallError("open a terminal's other end", errno)
	}
	return os.NewFile(other, "terminal"), nil
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

// resize sets a terminal's size, by either end, and tells the processes in its
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
