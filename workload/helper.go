package workload

import "io"

// Helper is a program that runs to its end beside all workloads: for a question that only a
// program of the node answers. It begins in the node's root directory, isolated from nothing,
// and can gain no privileges by running a set-user-ID program.
type Helper struct {
	// Command is the program's absolute path, and its argument 0.
	Command string
	Args    []string
	// Env is the whole environment, but for who its user is, where that does not tell.
	Env map[string]string
	// User is whom it runs as: a name or a number, or USER:GROUP. Empty: the supervisor's
	// own user.
	User string
	// MemoryMaxBytes bounds it with all that it starts, where the supervisor may bound
	// processes; elsewhere, the data of each process. At least 4 MiB.
	MemoryMaxBytes uint64
	// Stdin is read ahead of what it reads; nil: it is empty. See [ExecSpec].
	Stdin io.Reader `json:"-"`
	// Stdout and Stderr get all that it writes; nil: it is dropped. See [ExecSpec].
	Stdout io.Writer `json:"-"`
	Stderr io.Writer `json:"-"`
}
