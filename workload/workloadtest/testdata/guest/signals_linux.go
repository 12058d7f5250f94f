package main

import (
	"syscall"
	"unsafe"
)

// resetSignals has signals end the program as they end others: Go's runtime prints its
// stacks at SIGQUIT, and handles all by which it ends.
func resetSignals() {
	var byDefault [4]uint64 // a struct sigaction, whose zero value is the default
	for _, s := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGINT, syscall.SIGTERM} {
		_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0)
		if errno != 0 {
			panic(errno)
		}
	}
}
