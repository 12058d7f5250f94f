package main

import "fmt"

type deploymentPromoteCommand struct{ meta }

// Synopsis implements [subcommand].
func (*deploymentPromoteCommand) Synopsis() string { return "Promote a deployment's canaries" }

// Help implements [subcommand].
func (*deploymentPromoteCommand) Help() string {
	return `Usage: wasmnode deployment promote [options] DEPLOYMENT

  Has the canaries of a deployment take the places that they are for, once they are
  healthy, and the rest of the update begin, which is followed.

Options:

  -group=NAME     Only this group; may be given several times.
  -detach         Do not follow: print the evaluation's ID and return.` + commonOptions
}

// Run implements [subcommand].
func (c *deploymentPromoteCommand) Run(args []string) int {
	f := c.flags("deployment promote")
	detach := f.Bool("detach", false, "")
	groups := groupsFlag(f)
	client, d := c.onDeployment(f, args, c.Help())
	if d == nil {
		return 1
	}
	change, err := promote(client, d.ID, *groups)
	if err != nil {
		return c.fail(f, err)
	}
	return c.followDeployment(f, client, change, fmt.Sprintf("Deployment %q promoted", d.ID), *detach)
}
