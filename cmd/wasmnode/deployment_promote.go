package main

type deploymentPromoteCommand struct{ meta }

// Synopsis implements [subcommand].
func (*deploymentPromoteCommand) Synopsis() string { return "Promote a deployment's canaries" }

// Help implements [subcommand].
func (*deploymentPromoteCommand) Help() string {
	return `Usage: wasmnode deployment promote [options] DEPLOYMENT

  Has the canaries of a deployment take the places that they are for, once they are
  healthy, and the rest of the update begin, which is followed.

Options:

  -group=NAME     Only this group; may be given several times.
  -detach         Do not follow: print the evaluation's ID and return.` + commonOptions
}

// Run implements [subcommand].
func (c *deploymentPromoteCommand) Run(args []string) int {
	f := c.flags("deployment promote")
	detach := f.Bool("detach", false, "")
	groups := groupsFlag(f)
	client, d := c.onDeployment(f, args, c.Help())
	if d == nil {
		return 1
	}
	return c.promote(f, client, d.ID, *groups, *detach)
}
