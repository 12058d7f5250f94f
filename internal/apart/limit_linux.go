package apart

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const available = true

// attributes: the process ends with its parent, and a key that interrupts the
// parent's terminal is not for it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// limit bounds this process for good. What the Go runtime has mapped by now is not the
// work's, and the collector works harder before the end comes.
func limit(b Bounds) error {
	if err := closeInherited(); err != nil {
		return err
	}
	mapped, err := ownStatus("VmData")
	if err != nil {
		return err
	}
	debug.SetMemoryLimit(int64(b.Bytes / 8 * 7))
	if raced { // its memory is counted, and is many times the program's
		b.Bytes *= 32
	}
	seconds := uint64(b.Time.Seconds())
	endAt(unix.SIGXCPU)
	for _, l := range []struct {
		resource   int
		soft, hard uint64
	}{
		{unix.RLIMIT_DATA, mapped + b.Bytes, mapped + b.Bytes},
		{unix.RLIMIT_CPU, seconds, seconds + 2}, // a signal at the first, the end at the second
		{unix.RLIMIT_CORE, 0, 0},
		{unix.RLIMIT_NOFILE, 64, 64},
	} {
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: l.soft, Max: l.hard}); err != nil {
			return err
		}
	}
	// When the machine runs out of memory, it is this process that has to go.
	return os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
}

// endAt has the process say with its exit code that its time is over.
func endAt(signals ...os.Signal) {
	over := make(chan os.Signal, 1)
	signal.Notify(over, signals...)
	go func() {
		<-over
		os.Exit(outOfTime)
	}()
}

// closeInherited closes what the parent itself was left by others, but for the pipes.
func closeInherited() error {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range fds {
		fd, err := strconv.Atoi(e.Name())
		to, _ := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && fd > 2 && !strings.HasPrefix(to, "anon_inode:") { // the Go runtime's own
			_ = unix.Close(fd)
		}
	}
	return nil
}

// PeakBytes returns the most memory that this process has had at once, 0 if that is not
// known.
func PeakBytes() uint64 {
	n, _ := ownStatus("VmHWM")
	return n
}

// ownStatus returns a number of this process's status, in bytes.
func ownStatus(name string) (uint64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(status), "\n"+name+":")
	fields := strings.Fields(rest)
	if !ok || len(fields) == 0 {
		return 0, fmt.Errorf("/proc/self/status has no %s", name)
	}
	n, err := strconv.ParseUint(fields[0], 10, 64)
	return n << 10, err
}
