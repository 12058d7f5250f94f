package main

type jobRevertCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobRevertCommand) Synopsis() string { return "Go back to an earlier version of a job" }

// Help implements [subcommand].
func (*jobRevertCommand) Help() string {
	return `Usage: wasmnode job revert [options] JOB VERSION|TAG

  Registers an earlier version of a job again, as its next version, and follows it as
  job run does. The version is named by its number or by its tag; job history lists
  both.

Options:

  -detach   Do not follow: print the evaluation's ID and return.` + commonOptions
}

// Run implements [subcommand].
func (c *jobRevertCommand) Run(args []string) int {
	f := c.flags("job revert")
	detach := f.Bool("detach", false, "")
	client, job := c.onJob(f, args, 2, 2, c.Help())
	if job == nil {
		return 1
	}
	version, err := versionNamed(client, job, f.Arg(1))
	if err != nil {
		return c.fail(f, err)
	}
	change, _, err := client.Jobs().Revert(*job.ID, version, nil, nil, "", "")
	if err != nil {
		return c.fail(f, err)
	}
	return c.followChange(f, client, change, *detach)
}
