package main

type jobDeploymentsCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobDeploymentsCommand) Synopsis() string { return "List a job's deployments" }

// Help implements [subcommand].
func (*jobDeploymentsCommand) Help() string {
	return `Usage: wasmnode job deployments [options] JOB

  Lists the deployments of a job, the newest first.

Options:

  -latest         Show the newest only, and in full.
  -all            List those of earlier jobs with the ID, which were purged, too.` + commonOptions
}

// Run implements [subcommand].
func (c *jobDeploymentsCommand) Run(args []string) int {
	f := c.flags("job deployments")
	latest := f.Bool("latest", false, "")
	all := f.Bool("all", false, "")
	client, job := c.onJob(f, args, 1, 1, c.Help())
	if job == nil {
		return 1
	}
	if *latest {
		d, _, err := client.Jobs().LatestDeployment(*job.ID, nil)
		switch {
		case err != nil:
			return c.fail(f, err)
		case *f.json:
			return c.printJSON(d)
		case d == nil:
			c.ui.Output("No deployment found")
		default:
			c.showDeployment(f, d, false)
		}
		return 0
	}
	list, _, err := client.Jobs().Deployments(*job.ID, *all, nil)
	if err != nil {
		return c.fail(f, err)
	}
	return c.listDeployments(f, list)
}
