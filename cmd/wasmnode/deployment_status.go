package main

import "errors"

type deploymentStatusCommand struct{ meta }

// Synopsis implements [subcommand].
func (*deploymentStatusCommand) Synopsis() string { return "Show a deployment: how far it has come" }

// Help implements [subcommand].
func (*deploymentStatusCommand) Help() string {
	return `Usage: wasmnode deployment status [options] [DEPLOYMENT]

  Shows a deployment, or lists them all.

Options:

  -monitor        Follow it to its end; the exit code is 1 when it is not a success.
  -wait=TIME      With -monitor: how often it is looked at, 1s.` + commonOptions
}

// Run implements [subcommand].
func (c *deploymentStatusCommand) Run(args []string) int {
	f := c.flags("deployment status")
	follow, wait := f.Bool("monitor", false, ""), f.Duration("wait", lookEvery, "")
	client := c.connect(f, args, 0, 1, c.Help())
	if client == nil {
		return 1
	}
	if f.NArg() == 0 {
		list, _, err := client.Deployments().List(nil)
		if err != nil {
			return c.fail(f, err)
		}
		return c.listDeployments(f, list)
	}
	d, err := findDeployment(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	switch {
	case *f.json && *follow:
		return c.fail(f, errors.New("-monitor is for people: without -json and -t"))
	case *f.json:
		return c.printJSON(d)
	case !*follow:
		c.showDeployment(f, d, false)
		return 0
	}
	m := &monitor{meta: c.meta, client: client, flags: f, every: *wait, printed: map[string]bool{}}
	if err := m.followToEnd(d.ID, expectation{groups: map[string]string{}}); err != nil {
		return c.fail(f, err)
	}
	return 0
}
