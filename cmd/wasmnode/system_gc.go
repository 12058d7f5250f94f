package main

import (
	"fmt"

	nomad "github.com/hashicorp/nomad/api"
)

type systemGCCommand struct{ meta }

// Synopsis implements [subcommand].
func (*systemGCCommand) Synopsis() string { return "Remove what has ended" }

// Help implements [subcommand].
func (*systemGCCommand) Help() string {
	return `Usage: wasmnode system gc [options]

  Forgets jobs and evaluations that are over, and destroys the directories of
  allocations that have ended.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *systemGCCommand) Run(args []string) int {
	f := c.flags("system gc")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	before, err := keptBy(client)
	if err != nil {
		return c.fail(f, err)
	}
	if err := client.System().GarbageCollect(); err != nil {
		return c.fail(f, err)
	}
	after, err := keptBy(client)
	if err != nil {
		return c.fail(f, err)
	}
	c.ui.Output(fmt.Sprintf("Garbage collected: %s, %s and %s forgotten",
		quantity(before.jobs-after.jobs, "job"), quantity(before.allocs-after.allocs, "allocation"), quantity(before.evals-after.evals, "evaluation")))
	return 0
}

// kept is how much there is.
type kept struct{ jobs, allocs, evals int }

func keptBy(client *nomad.Client) (kept, error) {
	jobs, _, err := client.Jobs().List(nil)
	if err != nil {
		return kept{}, err
	}
	allocs, _, err := client.Allocations().List(nil)
	if err != nil {
		return kept{}, err
	}
	evals, _, err := client.Evaluations().List(nil)
	return kept{len(jobs), len(allocs), len(evals)}, err
}

// quantity is a number of things; what came meanwhile does not make it less than none.
func quantity(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", max(0, n), what)
}
