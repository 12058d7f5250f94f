package main

type systemGCCommand struct{ meta }

// Synopsis implements [subcommand].
func (*systemGCCommand) Synopsis() string { return "Remove what has ended" }

// Help implements [subcommand].
func (*systemGCCommand) Help() string {
	return `Usage: wasmnode system gc [options]

  Forgets jobs and evaluations that are over, and destroys the directories of
  allocations that have ended.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *systemGCCommand) Run(args []string) int {
	f := c.flags("system gc")
	if !c.parse(f, args, 0, 0, c.Help()) {
		return 1
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	if err := client.System().GarbageCollect(); err != nil {
		return c.fail(f, err)
	}
	return 0
}
