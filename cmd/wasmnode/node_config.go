package main

import "errors"

type nodeConfigCommand struct{ meta }

// Synopsis implements [subcommand].
func (*nodeConfigCommand) Synopsis() string { return "Show the servers of the node" }

// Help implements [subcommand].
func (*nodeConfigCommand) Help() string {
	return `Usage: wasmnode node config [options]

  Shows which servers the node asks what to run. The node's own control plane is the
  only one, and there is no other to be named.

Options:

  -servers          Show them.
  -update-servers   Is refused.` + commonOptions
}

// Run implements [subcommand].
func (c *nodeConfigCommand) Run(args []string) int {
	f := c.flags("node config")
	servers := f.Bool("servers", false, "")
	update := f.Bool("update-servers", false, "")
	if !c.parse(f, args, 0, maxMetaArguments, c.Help()) {
		return 1
	}
	switch {
	case *update:
		return c.fail(f, errors.New("servers are named in the configuration, client.servers, and nowhere else"))
	case !*servers:
		return c.fail(f, errors.New("what of the configuration? -servers"))
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	list, err := client.Agent().Servers()
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(list)
	}
	for _, address := range list {
		c.ui.Output(address)
	}
	return 0
}
