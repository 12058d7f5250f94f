package wasi

import "syscall"

// endsProgram reports whether a signal ends a program that has no handler for it and
// is one of those that people send to end something.
func endsProgram(n syscall.Signal) bool {
	return n == syscall.SIGINT || n == syscall.SIGTERM || n == syscall.SIGQUIT || n == syscall.SIGKILL
}
