package main

import "fmt"

type jobPromoteCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobPromoteCommand) Synopsis() string { return "Promote a job's canaries" }

// Help implements [subcommand].
func (*jobPromoteCommand) Help() string {
	return `Usage: wasmnode job promote [options] JOB

  Promotes the canaries of a job's latest deployment, as deployment promote does.

Options:

  -group=NAME     Only this group; may be given several times.
  -detach         Do not follow: print the evaluation's ID and return.` + commonOptions
}

// Run implements [subcommand].
func (c *jobPromoteCommand) Run(args []string) int {
	f := c.flags("job promote")
	detach := f.Bool("detach", false, "")
	groups := groupsFlag(f)
	client, job := c.onJob(f, args, 1, 1, c.Help())
	if job == nil {
		return 1
	}
	d, _, err := client.Jobs().LatestDeployment(*job.ID, nil)
	if err != nil {
		return c.fail(f, err)
	}
	if d == nil {
		return c.fail(f, fmt.Errorf("job %q has no deployment to promote", *job.ID))
	}
	return c.promote(f, client, d.ID, *groups, *detach)
}
