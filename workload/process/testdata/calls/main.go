// Command calls makes system calls, one for each argument, and prints what came of it.
package main

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// calls are made with arguments that fail also where they are allowed, but otherwise.
var calls = map[string][3]uintptr{
	"bpf":            {unix.SYS_BPF, 9999, 0},
	"io_uring_setup": {unix.SYS_IO_URING_SETUP, 0, 0},
	"keyctl":         {unix.SYS_KEYCTL, 9999, 0},
	"setns":          {unix.SYS_SETNS, 9999, 0},
	"clone":          {unix.SYS_CLONE, unix.CLONE_NEWUSER | unix.CLONE_SIGHAND, 0},
	"clone3":         {unix.SYS_CLONE3, 0, 0},
	"userfaultfd":    {unix.SYS_USERFAULTFD, 0xffff, 0},
	"getppid":        {unix.SYS_GETPPID, 0, 0},
}

func main() {
	for _, name := range os.Args[1:] {
		call := calls[name]
		_, _, errno := syscall.Syscall(call[0], call[1], call[2], 0)
		fmt.Println(name, unix.ErrnoName(errno))
	}
}
