package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"github.com/wasmnode/wasmnode/agent"
)

type supervisorCommand struct{ meta }

// init keeps a supervisor's main goroutine on the main thread, the only one that stays
// when the program is replaced by a newer one: tasks are forked there, and end with the
// thread that forked them.
func init() {
	if len(os.Args) > 1 && os.Args[1] == "supervisor" {
		runtime.LockOSThread()
	}
}

// Synopsis implements [subcommand].
func (*supervisorCommand) Synopsis() string {
	return "Run an agent's tasks in a process of their own (the agent starts it)"
}

// Help implements [subcommand].
func (*supervisorCommand) Help() string {
	return `Usage: wasmnode supervisor -data-dir=DIR

  Owns the running tasks of the agent with that data directory, so that they outlive
  it. The agent starts it when there is a task to run; it ends ten seconds after both
  the agent and the last task have ended. Its log is DIR/supervisor/supervisor.log.

  SIGTERM ends it, and every task with it; SIGHUP does nothing.`
}

// Run implements [subcommand].
func (c *supervisorCommand) Run(args []string) int {
	f := flag.NewFlagSet("supervisor", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	dataDir := f.String("data-dir", "", "")
	handover := f.Bool("handover-version", false, "") // asked by the program that this one is to replace
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		c.ui.Output(c.Help())
		return 0
	case err == nil && *handover:
		c.ui.Output(strconv.Itoa(agent.HandoverVersion))
		return 0
	case err != nil || *dataDir == "" || f.NArg() > 0:
		c.misuse(c.Help(), "supervisor takes -data-dir=DIR and nothing else")
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	agent.OutliveHangups()
	ended, thread := make(chan error), make(chan func())
	go func() { ended <- agent.RunSupervisor(ctx, *dataDir, thread, os.Stderr) }()
	for {
		select {
		case f := <-thread:
			f()
		case err := <-ended:
			if err != nil {
				c.ui.Error(fmt.Sprintf("Error: %v", err))
				return 1
			}
			return 0
		}
	}
}
