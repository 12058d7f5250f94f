package main

type operatorDiscardCommand struct{ meta }

// Synopsis implements [subcommand].
func (*operatorDiscardCommand) Synopsis() string { return "End what is unclaimed, and remove its data" }

// Help implements [subcommand].
func (*operatorDiscardCommand) Help() string {
	return `Usage: wasmnode operator discard [options] ALLOC

  Ends what runs on the node and is not known to be wanted, and removes its data. Of
  a task that waits for a workload that its driver does not take back, it ends that
  workload only, and the task starts again. ALLOC may be the beginning of an ID; node
  status -self lists what is unclaimed, and why.

Options:

  -all   Discard all that is unclaimed.` + commonOptions
}

// Run implements [subcommand].
func (c *operatorDiscardCommand) Run(args []string) int {
	return c.decide("discard", c.Help(), args)
}
