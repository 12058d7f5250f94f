package main

type jobPeriodicForceCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobPeriodicForceCommand) Synopsis() string { return "Launch a periodic job now" }

// Help implements [subcommand].
func (*jobPeriodicForceCommand) Help() string {
	return `Usage: wasmnode job periodic force [options] JOB

  Launches a child of a periodic job now, also beside one that runs, and follows it until
  it has started. When the job is launched next does not change. JOB may be the beginning
  of an ID.

Options:

  -detach         Do not follow: print the evaluation's ID and return.` + commonOptions
}

// Run implements [subcommand].
func (c *jobPeriodicForceCommand) Run(args []string) int {
	f := c.flags("job periodic force")
	detach := f.Bool("detach", false, "")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	id, err := findParent(client, f.Arg(0), "periodic job", "Periodic is not nil")
	if err != nil {
		return c.fail(f, err)
	}
	evalID, _, err := client.Jobs().PeriodicForce(id, nil)
	if err != nil {
		return c.fail(f, err)
	}
	switch {
	case *f.json:
		return c.printJSON(map[string]string{"EvalID": evalID})
	case *detach:
		c.ui.Output("Force periodic successful\nEvaluation ID: " + evalID)
		return 0
	}
	return (&monitor{meta: c.meta, client: client, flags: f}).follow(evalID)
}
