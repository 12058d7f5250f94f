package main

import nomad "github.com/hashicorp/nomad/api"

type jobInspectCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobInspectCommand) Synopsis() string { return "Print a job as JSON" }

// Help implements [subcommand].
func (*jobInspectCommand) Help() string {
	return `Usage: wasmnode job inspect [options] JOB

  Prints a job as the node has it: with every default filled in.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *jobInspectCommand) Run(args []string) int {
	f := c.flags("job inspect")
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
	return c.printJSON(map[string]*nomad.Job{"Job": job})
}
