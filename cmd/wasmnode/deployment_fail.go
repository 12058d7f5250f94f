package main

import "fmt"

type deploymentFailCommand struct{ meta }

// Synopsis implements [subcommand].
func (*deploymentFailCommand) Synopsis() string { return "Give a deployment up" }

// Help implements [subcommand].
func (*deploymentFailCommand) Help() string {
	return `Usage: wasmnode deployment fail [options] DEPLOYMENT

  Ends a deployment as failed: nothing more of the job's version is placed, and its
  canaries are stopped. Where the update says auto_revert the job goes back to its last
  stable version, which is followed.

Options:

  -detach         Do not follow: print the evaluation's ID and return.` + commonOptions
}

// Run implements [subcommand].
func (c *deploymentFailCommand) Run(args []string) int {
	f := c.flags("deployment fail")
	detach := f.Bool("detach", false, "")
	client, d := c.onDeployment(f, args, c.Help())
	if d == nil {
		return 1
	}
	change, _, err := client.Deployments().Fail(d.ID, nil)
	if err != nil {
		return c.fail(f, err)
	}
	done := fmt.Sprintf("Deployment %q failed", d.ID)
	v := change.RevertedJobVersion
	if v != nil {
		done += fmt.Sprintf(". Auto-reverted to job version %d.", *v)
	}
	return c.followDeployment(f, client, change, done, *detach || v == nil)
}
