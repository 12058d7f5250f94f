package main

type serviceDeleteCommand struct{ meta }

// Synopsis implements [subcommand].
func (*serviceDeleteCommand) Synopsis() string { return "Remove one registration of a service" }

// Help implements [subcommand].
func (*serviceDeleteCommand) Help() string {
	return `Usage: wasmnode service delete [options] SERVICE ID

  Removes one registration, by the service's name and the registration's ID (service info
  -verbose shows it). Nothing is stopped. What still runs is registered again when it is
  started again, or the agent is.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *serviceDeleteCommand) Run(args []string) int {
	f := c.flags("service delete")
	client := c.connect(f, args, 2, 2, c.Help())
	if client == nil {
		return 1
	}
	if _, err := client.Services().Delete(f.Arg(0), f.Arg(1), nil); err != nil {
		return c.fail(f, err)
	}
	c.ui.Output("Successfully deleted service registration")
	return 0
}
