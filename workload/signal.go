package workload

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
)

// Signal resolves a signal's name, with or without "SIG", in any case. There being
// none is INVALID_ARGUMENT.
func Signal(name string) (syscall.Signal, error) {
	full := strings.ToUpper(name)
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	if n := unix.SignalNum(full); n != 0 {
		return n, nil
	}
	return 0, abi.NewError(abi.InvalidArgument, fmt.Sprintf("unknown signal %q", name))
}

// Signals are the names of all that there are, in the order of their numbers.
func Signals() (names []string) {
	for n := syscall.Signal(1); n <= lastSignal; n++ {
		if name := unix.SignalName(n); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// lastSignal is the last that has a name of its own.
const lastSignal = unix.SIGSYS

// StopSignal is [Signal] for a stop, where no name means SIGINT.
func StopSignal(name string) (syscall.Signal, error) {
	if name == "" {
		return syscall.SIGINT, nil
	}
	return Signal(name)
}
