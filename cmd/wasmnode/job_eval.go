package main

import nomad "github.com/hashicorp/nomad/api"

type jobEvalCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobEvalCommand) Synopsis() string { return "Have the scheduler look at a job again" }

// Help implements [subcommand].
func (*jobEvalCommand) Help() string {
	return `Usage: wasmnode job eval [options] JOB

  Evaluates a job again: what is missing of it is placed.

Options:

  -force-reschedule   Replace allocations that failed, whatever their policy says.
  -detach             Do not follow: print the evaluation's ID and return.` + commonOptions
}

// Run implements [subcommand].
func (c *jobEvalCommand) Run(args []string) int {
	f := c.flags("job eval")
	force := f.Bool("force-reschedule", false, "")
	detach := f.Bool("detach", false, "")
	client, job := c.onJob(f, args, 1, 1, c.Help())
	if job == nil {
		return 1
	}
	evalID, _, err := client.Jobs().EvaluateWithOpts(*job.ID, nomad.EvalOptions{ForceReschedule: *force}, nil)
	if err != nil {
		return c.fail(f, err)
	}
	return c.followChange(f, client, &nomad.JobRegisterResponse{EvalID: evalID}, *detach)
}
