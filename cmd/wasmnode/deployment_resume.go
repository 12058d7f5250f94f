package main

import "fmt"

type deploymentResumeCommand struct{ meta }

// Synopsis implements [subcommand].
func (*deploymentResumeCommand) Synopsis() string { return "Have a paused deployment go on" }

// Help implements [subcommand].
func (*deploymentResumeCommand) Help() string {
	return `Usage: wasmnode deployment resume [options] DEPLOYMENT

  Has a paused deployment go on, and follows it.

Options:

  -detach         Do not follow: print the evaluation's ID and return.` + commonOptions
}

// Run implements [subcommand].
func (c *deploymentResumeCommand) Run(args []string) int {
	f := c.flags("deployment resume")
	detach := f.Bool("detach", false, "")
	client, d := c.onDeployment(f, args, c.Help())
	if d == nil {
		return 1
	}
	change, _, err := client.Deployments().Pause(d.ID, false, nil)
	if err != nil {
		return c.fail(f, err)
	}
	return c.followDeployment(f, client, change, fmt.Sprintf("Deployment %q resumed", d.ID), *detach)
}
