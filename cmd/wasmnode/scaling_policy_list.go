package main

import (
	"strconv"

	nomad "github.com/hashicorp/nomad/api"
)

type scalingPolicyListCommand struct{ meta }

// Synopsis implements [subcommand].
func (*scalingPolicyListCommand) Synopsis() string { return "List the scaling policies of jobs" }

// Help implements [subcommand].
func (*scalingPolicyListCommand) Help() string {
	return `Usage: wasmnode scaling policy list [options]

  Lists the scaling policies of the jobs that are not stopped.

Options:

  -job=JOB     Those of a job.
  -type=TYPE   Those of a type; groups have the type horizontal.` + commonOptions
}

// Run implements [subcommand].
func (c *scalingPolicyListCommand) Run(args []string) int {
	f := c.flags("scaling policy list")
	params := map[string]string{}
	for _, name := range []string{"job", "type"} {
		f.Func(name, "", func(s string) error { params[name] = s; return nil })
	}
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	policies, _, err := client.Scaling().ListPolicies(&nomad.QueryOptions{Params: params})
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(policies)
	}
	if len(policies) == 0 {
		c.ui.Output("No policies found")
		return 0
	}
	rows := [][]string{{"ID", "Enabled", "Type", "Target"}}
	for _, p := range policies {
		rows = append(rows, []string{f.short(p.ID), strconv.FormatBool(p.Enabled), p.Type, targetText(p.Target)})
	}
	c.table(rows)
	return 0
}
