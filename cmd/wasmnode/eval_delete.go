package main

import (
	"errors"
	"fmt"

	nomad "github.com/hashicorp/nomad/api"
)

type evalDeleteCommand struct{ meta }

// Synopsis implements [subcommand].
func (*evalDeleteCommand) Synopsis() string { return "Delete evaluations by ID or by a filter" }

// Help implements [subcommand].
func (*evalDeleteCommand) Help() string {
	return `Usage: wasmnode eval delete [options] [EVAL]

  Deletes an evaluation, or those that a filter fits, also ones that wait: nothing follows from
  them any more. Evaluations have to be paused:

      wasmnode operator scheduler set-config -pause-eval-broker=true

  Those whose allocations have not ended are kept.

Options:

  -filter=TEXT    Those that an expression of the API's filter language fits.
  -yes            Do not ask.` + commonOptions
}

// Run implements [subcommand].
func (c *evalDeleteCommand) Run(args []string) int {
	f := c.flags("eval delete")
	filter, yes := f.String("filter", "", ""), f.Bool("yes", false, "")
	if !c.parse(f, args, 0, 1, c.Help()) {
		return 1
	}
	if (f.NArg() == 1) == (*filter != "") {
		c.misuse(c.Help(), "eval delete takes an evaluation's ID or -filter")
		return 1
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	config, _, err := client.Operator().SchedulerGetConfiguration(nil)
	if err == nil && !config.SchedulerConfig.PauseEvalBroker {
		err = errors.New("evaluations are not paused: wasmnode operator scheduler set-config -pause-eval-broker=true")
	}
	if err != nil {
		return c.fail(f, err)
	}
	req := &nomad.EvalDeleteRequest{Filter: *filter}
	if f.NArg() == 1 {
		eval, err := findEvaluation(client, f.Arg(0))
		if err != nil {
			return c.fail(f, err)
		}
		req.EvalIDs = []string{eval.ID}
	} else {
		found, _, err := client.Evaluations().Count(&nomad.QueryOptions{Filter: *filter})
		if err != nil {
			return c.fail(f, err)
		}
		if found.Count == 0 {
			c.ui.Output("No evals found")
			return 0
		}
		if !*yes {
			if err := c.confirm(fmt.Sprintf("Are you sure you want to delete %d evals?", found.Count)); err != nil {
				return c.fail(f, err)
			}
		}
	}
	done, _, err := client.Evaluations().DeleteOpts(req, nil)
	if err != nil {
		return c.fail(f, err)
	}
	c.ui.Output(fmt.Sprintf("Successfully deleted %s", evals(done.Count)))
	return 0
}

func evals(n int) string {
	if n == 1 {
		return "1 evaluation"
	}
	return fmt.Sprintf("%d evaluations", n)
}
