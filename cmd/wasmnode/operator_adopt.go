package main

type operatorAdoptCommand struct{ meta }

// Synopsis implements [subcommand].
func (*operatorAdoptCommand) Synopsis() string { return "Take what is unclaimed for wanted" }

// Help implements [subcommand].
func (*operatorAdoptCommand) Help() string {
	return `Usage: wasmnode operator adopt [options] ALLOC

  Has the control plane take an allocation that runs on the node, and that it does
  not know, for one of its own. The job becomes what the allocation's job is: other
  allocations of it are replaced if that is another version. ALLOC may be the
  beginning of an ID; node status -self lists what is unclaimed, and why.

Options:

  -all   Adopt all that can be adopted.` + commonOptions
}

// Run implements [subcommand].
func (c *operatorAdoptCommand) Run(args []string) int {
	return c.decide("adopt", c.Help(), args)
}
