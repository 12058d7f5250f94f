package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

// lockRetries is how often a renewal that failed is tried again by default, as in Nomad.
const lockRetries = 5

type varLockCommand struct{ meta }

// varLock is what a command line of [varLockCommand] asks for.
type varLock struct {
	lease       lockLease
	backoff     time.Duration // between attempts to get it
	earlyReturn bool
	shell       bool
	command     []string
}

// Synopsis implements [subcommand].
func (*varLockCommand) Synopsis() string { return "Run a command while a variable is locked" }

// Help implements [subcommand].
func (*varLockCommand) Help() string {
	return `Usage: wasmnode var lock [options] PATH|@FILE [@FILE] COMMAND...

  Locks a variable, runs a command, and lets go of the lock when the command has ended.
  While somebody else has the lock, it waits. A variable that is not there is made, and
  stays; the items of one that is there are replaced by those of a FILE, if there is one.

  The lock is renewed while the command runs. When it is lost all the same, the command
  is killed: with all that it started, unless its input is a terminal. The command's exit
  code is that of this one.

Options:

  -ttl=TIME        How long the lock lasts without a renewal: 10s to 24h, 15s by default.
  -delay=TIME      How long nobody can have it after it was lost, 15s by default.
  -max-retry=N     How often a renewal that failed is tried again, 5 by default.
  -early-return    Do not wait for the lock: run nothing when somebody else has it.
  -backoff=TIME    How long to wait between attempts to get it: 1.1 TTLs by default.
  -shell=false     Run the command without a shell: SHELL, or /bin/sh.
  -verbose         Tell what is done, on standard error.` + commonOptions
}

// Run implements [subcommand].
func (c *varLockCommand) Run(args []string) int {
	f := c.flags("var lock")
	l := &varLock{}
	ttl, delay := f.Duration("ttl", 0, ""), f.Duration("delay", 0, "")
	f.IntVar(&l.lease.retries, "max-retry", lockRetries, "")
	f.BoolVar(&l.earlyReturn, "early-return", false, "")
	f.DurationVar(&l.backoff, "backoff", 0, "")
	f.BoolVar(&l.shell, "shell", true, "")
	if !c.parse(f, args, 2, 1000, c.Help()) {
		return 1
	}
	if f.namespace == "*" {
		return c.fail(f, errAllNamespaces)
	}
	if err := l.read(f, *ttl, *delay); err != nil {
		return c.fail(f, err)
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	l.lease.variables = client.Variables()
	code, err := c.hold(f, l)
	if err != nil {
		return c.fail(f, err)
	}
	return code
}

// read is what the arguments say.
func (l *varLock) read(f *flags, ttl, delay time.Duration) error {
	rest := f.Args()
	input := &varInput{stdin: os.Stdin, form: "json"}
	l.lease.variable = &nomad.Variable{}
	path := ""
	if !strings.HasPrefix(rest[0], "@") {
		path, rest = strings.Trim(strings.TrimSpace(rest[0]), "/"), rest[1:]
	}
	if strings.HasPrefix(rest[0], "@") {
		var err error
		if l.lease.variable, err = input.variable(rest[0]); err != nil {
			return err
		}
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return errors.New("there is no command to run")
	}
	v := l.lease.variable
	if path != "" {
		v.Path = path
	}
	if f.namespace != "" {
		v.Namespace = f.namespace
	}
	if v.Path == "" {
		return errors.New("the file has no path: name one before it")
	}
	l.command = rest
	if err := l.lease.want(ttl, delay); err != nil {
		return err
	}
	if l.backoff == 0 {
		l.backoff = time.Duration(lockBackoff * float64(l.lease.ttl))
	}
	return nil
}

// hold gets the lock and runs the command, whose exit code it returns.
func (c *varLockCommand) hold(f *flags, l *varLock) (code int, err error) {
	verbose := func(format string, args ...any) {
		if *f.verbose {
			c.ui.Warn(fmt.Sprintf(format, args...))
		}
	}
	ctx, cancel := interruptible()
	defer cancel()
	for {
		verbose("Attempting to acquire lock")
		err := l.lease.acquire(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return 1, orInterrupted(ctx, ctx.Err())
		}
		if !errors.Is(err, errLocked) {
			return 1, err
		}
		if l.earlyReturn {
			c.ui.Warn(fmt.Sprintf("Variable %q is locked by somebody else: nothing is run", l.lease.variable.Path))
			return 0, nil
		}
		verbose("Somebody else has the lock: trying again in %v", l.backoff)
		select {
		case <-ctx.Done():
			return 1, orInterrupted(ctx, ctx.Err())
		case <-time.After(l.backoff):
		}
	}
	cancel() // signals are for the command from here on
	verbose("Variable locked, ready to execute: %s", strings.Join(l.command, " "))
	code, err = l.run(context.Background())
	verbose("Releasing the lock")
	if released := l.lease.release(); released != nil && err == nil {
		err = fmt.Errorf("the command has ended with exit code %d, and the lock could not be released: %s", code, saidOf(released))
	}
	return code, err
}

// run runs the command while the lock is held.
func (l *varLock) run(ctx context.Context) (code int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := l.process(ctx)
	signals := make(chan os.Signal, 8) // as many as may come before one is passed on
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		cancel(l.lease.keep(ctx))
	}()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = l.signal(cmd, s.(syscall.Signal)) // it has ended
			continue
		case err = <-ended:
		}
		break
	}
	lost := context.Cause(ctx)
	cancel(nil)
	<-kept
	if lost != nil {
		return 1, lost
	}
	return exitCodeOf(err)
}

// exitCodeOf is the exit code of a command that has ended, as shells have it.
func exitCodeOf(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case !errors.As(err, &exit):
		return 1, err
	}
	if status, is := exit.Sys().(syscall.WaitStatus); is && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}

// process is the command, which is killed when ctx ends.
func (l *varLock) process(ctx context.Context) *exec.Cmd {
	command := l.command
	if l.shell {
		shell := os.Getenv("SHELL")
		if shell == "" {
			shell = "/bin/sh"
		}
		command = []string{shell, "-c", strings.Join(command, " ")}
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// A group of its own, which can be killed whole, could not read from a terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !isTerminal(os.Stdin)}
	cmd.Cancel = func() error { return l.signal(cmd, syscall.SIGKILL) }
	return cmd
}

func (l *varLock) signal(cmd *exec.Cmd, s syscall.Signal) error {
	if cmd.SysProcAttr.Setpgid {
		return syscall.Kill(-cmd.Process.Pid, s)
	}
	return cmd.Process.Signal(s)
}
