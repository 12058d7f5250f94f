package wasi

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
)

// signalNumber resolves a signal's name, with or without "SIG", in any case.
func signalNumber(name string) (syscall.Signal, error) {
	full := strings.ToUpper(name)
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	if n := unix.SignalNum(full); n != 0 {
		return n, nil
	}
	return 0, abi.NewError(abi.InvalidArgument, fmt.Sprintf("there is no signal %q", name))
}

// endsProgram reports whether a signal ends a program that has no handler for it and
// is one of those that people send to end something.
func endsProgram(n syscall.Signal) bool {
	return n == syscall.SIGINT || n == syscall.SIGTERM || n == syscall.SIGQUIT || n == syscall.SIGKILL
}
