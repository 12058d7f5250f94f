package main

import nomad "github.com/hashicorp/nomad/api"

type deploymentListCommand struct{ meta }

// Synopsis implements [subcommand].
func (*deploymentListCommand) Synopsis() string { return "List the deployments" }

// Help implements [subcommand].
func (*deploymentListCommand) Help() string {
	return `Usage: wasmnode deployment list [options]

  Lists the deployments, the newest first.

Options:

  -filter=TEXT    Only those that an expression of the API's filter language fits.` + commonOptions
}

// Run implements [subcommand].
func (c *deploymentListCommand) Run(args []string) int {
	f := c.flags("deployment list")
	filter := f.String("filter", "", "")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	list, _, err := client.Deployments().List(&nomad.QueryOptions{Filter: *filter})
	if err != nil {
		return c.fail(f, err)
	}
	return c.listDeployments(f, list)
}
