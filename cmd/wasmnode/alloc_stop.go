package main

import nomad "github.com/hashicorp/nomad/api"

type allocStopCommand struct{ meta }

// Synopsis implements [subcommand].
func (*allocStopCommand) Synopsis() string { return "Stop an allocation, and have another placed" }

// Help implements [subcommand].
func (*allocStopCommand) Help() string {
	return `Usage: wasmnode alloc stop [options] ALLOC

  Stops an allocation. Its job goes on: another allocation takes its place,
  that of a system or sysbatch job when the job is evaluated again (job eval).

Options:

  -no-shutdown-delay   Do not wait for the shutdown_delay of its group and tasks.
  -detach              Do not follow the evaluation.` + commonOptions
}

// Run implements [subcommand].
func (c *allocStopCommand) Run(args []string) int {
	f := c.flags("alloc stop")
	noDelay := f.Bool("no-shutdown-delay", false, "")
	detach := f.Bool("detach", false, "")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	alloc, err := findAllocation(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	var options *nomad.QueryOptions
	if *noDelay {
		options = &nomad.QueryOptions{Params: map[string]string{"no_shutdown_delay": "true"}}
	}
	resp, err := client.Allocations().Stop(alloc, options)
	if err != nil {
		return c.fail(f, err)
	}
	switch {
	case *f.json:
		return c.printJSON(resp)
	case *detach:
		c.ui.Output(resp.EvalID)
		return 0
	}
	return (&monitor{meta: c.meta, client: client, flags: f}).follow(resp.EvalID)
}
