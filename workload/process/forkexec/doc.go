// Package forkexec has a forked process make system calls that were decided before, and nothing else, until
// one of them executes a command.
//
// Between fork and exec a process is a copy of one thread of a program with many: nothing of Go's
// runtime works there. So what it is to do is a list of system calls with their arguments, and a few
// lines of assembly for each architecture make them. They touch neither memory nor stack but the list, so that the
// new process need not have a copy of the memory, and its parent goes on meanwhile. That takes a tenth of starting
// a program of Go's that does the same by itself.
//
// The package knows nothing of isolation, users and commands. Start reading at [Calls] and [Fork].
package forkexec
