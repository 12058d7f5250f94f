package workload

import "io"

// ExecSpec is a command to run in a running workload. It runs as the workload's own
// process does: with its user, environment, working directory, limits and isolation.
type ExecSpec struct {
	// Command is the program: a path, from the working directory when it is not
	// absolute, or a name that is looked for on the workload's PATH.
	Command string
	Args    []string
	// TTY gives the command a terminal of its own, for all three streams.
	TTY bool
	// Size is the terminal's size at the start; zero: [DefaultSize].
	Size Size
	// Resize brings later sizes. Nil, or closed: there are none.
	Resize <-chan Size
	// Stdin is read ahead of what the command reads; nil: it is empty. Its end closes
	// the command's standard input, and types ^D on a terminal. A Read may be under way
	// when Exec returns: the owner of Stdin ends it.
	Stdin io.Reader
	// Stdout and Stderr get all that the command writes, one call at a time each; nil:
	// it is dropped. With a terminal everything goes to Stdout. A Write that fails ends
	// the command; Exec waits for one that blocks, so who ends the context ends
	// the Write too.
	Stdout io.Writer
	Stderr io.Writer
}

// Size is a terminal's size in characters.
type Size struct{ Rows, Columns uint16 }

// DefaultSize is that of a terminal whose size is not given.
var DefaultSize = Size{Rows: 24, Columns: 80}
