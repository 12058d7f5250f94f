package process

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// handleIgnored has children begin with the ordinary handling of signals: one that
// this process was started to ignore, as nohup does with SIGHUP, is ignored by
// children too, but one that is handled here is not. Nothing comes of it here.
func handleIgnored() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	// The signals that C libraries keep for themselves are those that Go leaves as
	// they are, and that it lets nobody handle.
	for _, s := range []unix.Signal{32, 33, 34} {
		var ordinary [4]uint64 // the kernel's struct sigaction: SIG_DFL, no flags, no mask
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&ordinary)), 0, 8, 0, 0)
	}
}
