package main

import (
	"cmp"
	"fmt"
)

type allocRestartCommand struct{ meta }

// Synopsis implements [subcommand].
func (*allocRestartCommand) Synopsis() string { return "Restart tasks in place" }

// Help implements [subcommand].
func (*allocRestartCommand) Help() string {
	return `Usage: wasmnode alloc restart [options] ALLOC [TASK]

  Restarts one task, or all that run.

Options:

  -task=TASK   The task, in place of TASK.
  -all-tasks   Restart those that have ended too.` + commonOptions
}

// Run implements [subcommand].
func (c *allocRestartCommand) Run(args []string) int {
	f := c.flags("alloc restart")
	all, name := f.Bool("all-tasks", false, ""), f.String("task", "", "")
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
		if *all {
			return c.fail(f, fmt.Errorf("-all-tasks and task %q contradict each other", task))
		}
	}
	if *all {
		err = client.Allocations().RestartAllTasks(alloc, nil)
	} else {
		err = client.Allocations().Restart(alloc, task, nil)
	}
	if err != nil {
		return c.fail(f, err)
	}
	return 0
}
