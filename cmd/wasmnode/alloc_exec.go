package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	nomad "github.com/hashicorp/nomad/api"
	"golang.org/x/term"
)

type allocExecCommand struct{ meta }

// Synopsis implements [subcommand].
func (*allocExecCommand) Synopsis() string { return "Run a command in a running task" }

// Help implements [subcommand].
func (*allocExecCommand) Help() string {
	return `Usage: wasmnode alloc exec [options] ALLOC [--] COMMAND [ARG...]

  Runs a command in a running task: as its user, with its environment, in its
  directory and its limits. The exit code is the command's. It ends with this
  command, and with the task. A "--" keeps a -h behind it from being taken for a
  question about this command.

Options:

  -task=TASK   The task; can be left out when the allocation has one.
  -i           Pass standard input on; true.
  -t           Give the command a terminal; true where this one has one.
  -e=CHAR      Ends a session on a terminal when it is typed at the beginning of
               a line, with a '.' behind it; '~'. "none" switches it off.` + pickOptions + commonOptions
}

// Run implements [subcommand].
func (c *allocExecCommand) Run(args []string) int {
	f := c.flags("alloc exec")
	input := f.Bool("i", true, "")
	tty := f.Bool("t", isTerminal(os.Stdin) && isTerminal(os.Stdout), "")
	char := f.String("e", "~", "")
	name := f.String("task", "", "")
	var pick allocationPick
	pick.bind(f)
	if !c.parse(f, args, 2, maxCommand, c.Help()) {
		return 1
	}
	escapeChar, err := parseEscape(*char)
	if err != nil {
		return c.fail(f, err)
	}
	if *tty && !*input {
		return c.fail(f, errors.New("a terminal (-t) needs standard input (-i)"))
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	alloc, err := pick.find(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	task, err := taskOf(alloc, *name)
	if err != nil {
		if *name == "" {
			err = fmt.Errorf("%w with -task", err)
		}
		return c.fail(f, err)
	}
	command := f.Args()[1:]
	if command[0] == "--" && len(command) > 1 {
		command = command[1:]
	}
	s := &execSession{client: client, alloc: alloc, task: task, command: command, tty: *tty, stdin: strings.NewReader("")}
	if *input {
		s.stdin = os.Stdin
	}
	code, err := s.run(escapeChar)
	if err != nil {
		return c.fail(f, err)
	}
	return code
}

// maxCommand is how many arguments a command can have: what a shell passes on.
const maxCommand = 1 << 20

// parseEscape returns the escape character; 0: there is none.
func parseEscape(s string) (byte, error) {
	switch {
	case s == "" || s == "none":
		return 0, nil
	case len(s) > 1:
		return 0, fmt.Errorf("-e %q is neither one character nor \"none\"", s)
	}
	return s[0], nil
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// execSession is one command in a task.
type execSession struct {
	client  *nomad.Client
	alloc   *nomad.Allocation
	task    string
	command []string
	action  string // the job's, in place of a command; empty: none
	tty     bool
	stdin   io.Reader
}

// errEscaped is returned when the user has ended the session.
var errEscaped = errors.New("the session was ended by its escape character")

// run runs the command and returns its exit code. The terminal is as before then.
func (s *execSession) run(escapeChar byte) (code int, err error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	// Without a terminal ^C is a signal to us; the command ends with the connection.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(interrupts)
	go func() {
		select {
		case sig := <-interrupts:
			cancel(interrupted{sig.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	var sizes chan nomad.TerminalSize
	if s.tty {
		restore, err := s.rawMode()
		if err != nil {
			return 0, err
		}
		defer restore()
		if escapeChar != 0 {
			s.stdin = newEscapeReader(s.stdin, escapeChar, func() { cancel(errEscaped) })
		}
		sizes = make(chan nomad.TerminalSize, 1)
		defer followSize(ctx, sizes)()
	}
	if s.action != "" {
		code, err = s.client.Jobs().ActionExec(ctx, s.alloc, s.alloc.JobID, s.task, s.tty, nil, s.action, s.stdin, os.Stdout, os.Stderr, sizes, nil)
	} else {
		code, err = s.client.Allocations().Exec(ctx, s.alloc, s.task, s.tty, s.command, s.stdin, os.Stdout, os.Stderr, sizes, nil)
	}
	var by interrupted
	switch cause := context.Cause(ctx); {
	case errors.As(cause, &by):
		return 128 + int(by.signal), nil
	case errors.Is(cause, errEscaped):
		return 0, nil
	}
	return code, err
}

// interrupted is the signal that ended the session.
type interrupted struct{ signal syscall.Signal }

// Error implements error.
func (i interrupted) Error() string { return i.signal.String() }

// rawMode passes on every key as it is typed, where standard input is a terminal.
func (s *execSession) rawMode() (restore func(), err error) {
	if !isTerminal(os.Stdin) {
		return func() {}, nil
	}
	before, err := term.MakeRaw(int(os.Stdin.Fd()))
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	return func() { _ = term.Restore(int(os.Stdin.Fd()), before) }, nil // there is nowhere to report it
}

// The size of a terminal that was asked for where there is none.
const defaultRows, defaultColumns = 24, 80

// followSize sends the terminal's size, now and after each change, until the function
// that it returns is called.
func followSize(ctx context.Context, sizes chan<- nomad.TerminalSize) (stop func()) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	changes <- syscall.SIGWINCH
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-changes:
			case <-ctx.Done():
				return
			}
			columns, rows, err := term.GetSize(int(os.Stdout.Fd()))
			if err != nil {
				columns, rows = defaultColumns, defaultRows // it is not a terminal
			}
			select {
			case sizes <- nomad.TerminalSize{Height: rows, Width: columns}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		signal.Stop(changes)
		cancel()
		<-done
	}
}
