package main

import "fmt"

type deploymentPauseCommand struct{ meta }

// Synopsis implements [subcommand].
func (*deploymentPauseCommand) Synopsis() string { return "Have a deployment begin nothing new" }

// Help implements [subcommand].
func (*deploymentPauseCommand) Help() string {
	return `Usage: wasmnode deployment pause [options] DEPLOYMENT

  Has a deployment begin nothing new until it is resumed. What it has placed goes on,
  and the time of the pause does not count for its progress deadline.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *deploymentPauseCommand) Run(args []string) int {
	f := c.flags("deployment pause")
	client, d := c.onDeployment(f, args, c.Help())
	if d == nil {
		return 1
	}
	change, _, err := client.Deployments().Pause(d.ID, true, nil)
	if err != nil {
		return c.fail(f, err)
	}
	return c.followDeployment(f, client, change, fmt.Sprintf("Deployment %q paused", d.ID), true)
}
