package main

import "cmp"

type allocSignalCommand struct{ meta }

// Synopsis implements [subcommand].
func (*allocSignalCommand) Synopsis() string { return "Send a signal to tasks" }

// Help implements [subcommand].
func (*allocSignalCommand) Help() string {
	return `Usage: wasmnode alloc signal [options] ALLOC [TASK]

  Sends a signal to one task, or to all that run.

Options:

  -task=TASK  The task, in place of TASK.
  -s=SIGNAL   The signal's name, such as SIGHUP or HUP; SIGKILL.` + commonOptions
}

// Run implements [subcommand].
func (c *allocSignalCommand) Run(args []string) int {
	f := c.flags("alloc signal")
	signal, name := f.String("s", "SIGKILL", ""), f.String("task", "", "")
	client := c.connect(f, args, 1, 2, c.Help())
	if client == nil {
		return 1
	}
	alloc, err := findAllocation(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	task := cmp.Or(*name, f.Arg(1))
	if task != "" {
		if task, err = taskOf(alloc, task); err != nil {
			return c.fail(f, err)
		}
	}
	if err := client.Allocations().Signal(alloc, nil, task, *signal); err != nil {
		return c.fail(f, err)
	}
	return 0
}
