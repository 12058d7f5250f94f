package main

type jobAllocsCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobAllocsCommand) Synopsis() string { return "List a job's allocations" }

// Help implements [subcommand].
func (*jobAllocsCommand) Help() string {
	return `Usage: wasmnode job allocs [options] JOB

  Lists a job's allocations, the newest first.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *jobAllocsCommand) Run(args []string) int {
	f := c.flags("job allocs")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	job, err := findJob(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	allocs, _, err := client.Jobs().Allocations(*job.ID, true, nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(allocs)
	}
	allocationTable(c.meta, f, allocs)
	return 0
}
