package main

import "fmt"

type deploymentUnblockCommand struct{ meta }

// Synopsis implements [subcommand].
func (*deploymentUnblockCommand) Synopsis() string {
	return "Have a deployment go on that waits for other regions"
}

// Help implements [subcommand].
func (*deploymentUnblockCommand) Help() string {
	return `Usage: wasmnode deployment unblock [options] DEPLOYMENT

  Has a deployment go on that waits for other regions. There are none of these here:
  the command is for scripts that are written for several.

Options:

  -detach         Do not follow: print the evaluation's ID and return.` + commonOptions
}

// Run implements [subcommand].
func (c *deploymentUnblockCommand) Run(args []string) int {
	f := c.flags("deployment unblock")
	detach := f.Bool("detach", false, "")
	client, d := c.onDeployment(f, args, c.Help())
	if d == nil {
		return 1
	}
	change, _, err := client.Deployments().Unblock(d.ID, nil)
	if err != nil {
		return c.fail(f, err)
	}
	return c.followDeployment(f, client, change, fmt.Sprintf("Deployment %q unblocked", d.ID), *detach)
}
