package main

type jobAllocsCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobAllocsCommand) Synopsis() string { return "List a job's allocations" }

// Help implements [subcommand].
func (*jobAllocsCommand) Help() string {
	return `Usage: wasmnode job allocs [options] JOB

  Lists a job's allocations, the newest first.

Options:

  -all   Also those of an earlier job of that ID, which was purged.` + commonOptions
}

// Run implements [subcommand].
func (c *jobAllocsCommand) Run(args []string) int {
	f := c.flags("job allocs")
	all := f.Bool("all", false, "")
	client, job := c.onJob(f, args, 1, 1, c.Help())
	if job == nil {
		return 1
	}
	allocs, _, err := client.Jobs().Allocations(*job.ID, *all, nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(allocs)
	}
	allocationTable(c.meta, f, allocs)
	return 0
}
