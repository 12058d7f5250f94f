package main

import (
	nomad "github.com/hashicorp/nomad/api"
)

type evalStatusCommand struct{ meta }

// Synopsis implements [subcommand].
func (*evalStatusCommand) Synopsis() string {
	return "Show an evaluation: what was placed, and what was not and why"
}

// Help implements [subcommand].
func (*evalStatusCommand) Help() string {
	return `Usage: wasmnode eval status [options] [EVAL]

  Lists the evaluations, or shows one and why it could not place what it could not.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *evalStatusCommand) Run(args []string) int {
	f := c.flags("eval status")
	client := c.connect(f, args, 0, 1, c.Help())
	if client == nil {
		return 1
	}
	if f.NArg() == 0 {
		return c.list(f, client)
	}
	eval, err := findEvaluation(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(eval)
	}
	c.pairs([][2]string{
		{"ID", eval.ID},
		{"Create Time", ago(eval.CreateTime)},
		{"Modify Time", ago(eval.ModifyTime)},
		{"Status", eval.Status},
		{"Status Description", eval.StatusDescription},
		{"Type", eval.Type},
		{"TriggeredBy", eval.TriggeredBy},
		{"Job ID", eval.JobID},
	})
	(&monitor{meta: c.meta, client: client, flags: f}).placementFailures(eval)
	return 0
}

func (c *evalStatusCommand) list(f *flags, client *nomad.Client) int {
	evals, _, err := client.Evaluations().List(nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(evals)
	}
	c.evalTable(f, evals)
	return 0
}
