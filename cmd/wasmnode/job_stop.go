package main

import nomad "github.com/hashicorp/nomad/api"

type jobStopCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobStopCommand) Synopsis() string { return "Stop a job" }

// Help implements [subcommand].
func (*jobStopCommand) Help() string {
	return `Usage: wasmnode job stop [options] JOB

  Stops a job: its allocations are ended. The job stays listed as dead until
  it is collected, or at once with -purge.

Options:

  -purge               Forget the job too.
  -no-shutdown-delay   Do not wait for the shutdown_delay of its groups and tasks.
  -eval-priority=N     The priority of the evaluation, 1 to 100; the job's.
  -detach              Do not follow: print the evaluation's ID and return.
  -yes, -global        Have no effect: nothing is asked, and there is one region.` + commonOptions
}

// Run implements [subcommand].
func (c *jobStopCommand) Run(args []string) int {
	f := c.flags("job stop")
	var opts nomad.DeregisterOptions
	f.BoolVar(&opts.Purge, "purge", false, "")
	f.BoolVar(&opts.NoShutdownDelay, "no-shutdown-delay", false, "")
	f.IntVar(&opts.EvalPriority, "eval-priority", 0, "")
	f.BoolVar(&opts.Global, "global", false, "")
	f.Bool("yes", false, "")
	detach := f.Bool("detach", false, "")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	job, err := findJob(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	evalID, _, err := client.Jobs().DeregisterOpts(*job.ID, &opts, nil)
	if err != nil {
		return c.fail(f, err)
	}
	switch {
	case *f.json:
		return c.printJSON(map[string]string{"EvalID": evalID})
	case evalID == "":
		return 0
	case *detach:
		c.ui.Output(evalID)
		return 0
	}
	return (&monitor{meta: c.meta, client: client, flags: f}).follow(evalID)
}
