package main

import (
	"fmt"

	nomad "github.com/hashicorp/nomad/api"
)

type jobStartCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobStartCommand) Synopsis() string { return "Start a stopped job again" }

// Help implements [subcommand].
func (*jobStartCommand) Help() string {
	return `Usage: wasmnode job start [options] JOB

  Starts a job that was stopped, as it was registered, and follows it as job run does.

Options:

  -detach   Do not follow: print the evaluation's ID and return.` + commonOptions
}

// Run implements [subcommand].
func (c *jobStartCommand) Run(args []string) int {
	f := c.flags("job start")
	detach := f.Bool("detach", false, "")
	client, job := c.onJob(f, args, 1, 1, c.Help())
	switch {
	case job == nil:
		return 1
	case !*job.Stop:
		c.ui.Output(fmt.Sprintf("Job %q is not stopped: there is nothing to start", *job.ID))
		return 0
	}
	// Its source goes with it, if it is known.
	submission, _, _ := client.Jobs().Submission(*job.ID, int(*job.Version), nil)
	*job.Stop = false
	opts := &nomad.RegisterOptions{Submission: submission, EnforceIndex: true, ModifyIndex: *job.JobModifyIndex}
	change, _, err := client.Jobs().RegisterOpts(job, opts, nil)
	if err != nil {
		return c.fail(f, err)
	}
	return c.followChange(f, client, change, *detach)
}
