package main

import (
	"fmt"

	nomad "github.com/hashicorp/nomad/api"
)

type jobInspectCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobInspectCommand) Synopsis() string { return "Print a job as JSON" }

// Help implements [subcommand].
func (*jobInspectCommand) Help() string {
	return `Usage: wasmnode job inspect [options] JOB

  Prints a job as the node has it: with every default filled in.

Options:

  -version=N   That version of it; without it, the current one.
  -hcl         The source that it was registered with.` + commonOptions
}

// Run implements [subcommand].
func (c *jobInspectCommand) Run(args []string) int {
	f := c.flags("job inspect")
	version := f.String("version", "", "")
	source := f.Bool("hcl", false, "")
	client, job := c.onJob(f, args, 1, 1, c.Help())
	if job == nil {
		return 1
	}
	if *version != "" {
		var err error
		if job, err = versionOf(client, job, *version); err != nil {
			return c.fail(f, err)
		}
	}
	if !*source {
		return c.printJSON(map[string]*nomad.Job{"Job": job})
	}
	submission, _, err := client.Jobs().Submission(*job.ID, int(*job.Version), nil)
	switch {
	case err != nil:
		return c.fail(f, err)
	case submission.Format != "hcl2":
		return c.fail(f, fmt.Errorf("version %d of job %q was registered as %s, not as HCL", *job.Version, *job.ID, submission.Format))
	}
	c.ui.Output(submission.Source)
	return 0
}

// versionOf is a kept version of a job.
func versionOf(client *nomad.Client, job *nomad.Job, name string) (*nomad.Job, error) {
	number, err := versionNamed(client, job, name)
	if err != nil {
		return nil, err
	}
	versions, _, _, err := client.Jobs().Versions(*job.ID, false, nil)
	if err != nil {
		return nil, err
	}
	for _, v := range versions {
		if *v.Version == number {
			return v, nil
		}
	}
	return nil, fmt.Errorf("version %d of job %q is not kept", number, *job.ID)
}
