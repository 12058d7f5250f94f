// Package forkexec has a forked process make system calls that were decided before, and nothing else, until
// one of them executes a command.
//
// Between fork and exec a process is a copy of one thread of a program with many: nothing of Go's
// runtime works there. So what it is to do is a list of system calls with their arguments, and a few
// lines of assembly for each architecture make them, which touch nothing but the list. A program of Go's that does
// the same by itself takes longer to begin than all of it.
//
// The process has a memory of its own, though sharing its parent's would be faster: the kernel holds processes
// that share one to be one in much, as in what it kills for want of memory and whom it lets look into it.
//
// The package knows nothing of isolation, users and commands. Start reading at [Calls] and [Fork].
package forkexec
