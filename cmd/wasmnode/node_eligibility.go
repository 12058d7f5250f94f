package main

import (
	"errors"
	"fmt"

	nomad "github.com/hashicorp/nomad/api"
)

type nodeEligibilityCommand struct{ meta }

// Synopsis implements [subcommand].
func (*nodeEligibilityCommand) Synopsis() string { return "Set whether a node takes new allocations" }

// Help implements [subcommand].
func (*nodeEligibilityCommand) Help() string {
	return `Usage: wasmnode node eligibility [options] [NODE]

  Has a node take new allocations, or none. What runs goes on. NODE may be the
  beginning of an ID.

Options:

  -enable    The node is eligible.
  -disable   The node is not.
  -self      The node that answers.` + commonOptions
}

// Run implements [subcommand].
func (c *nodeEligibilityCommand) Run(args []string) int {
	f := c.flags("node eligibility")
	enable := f.Bool("enable", false, "")
	disable := f.Bool("disable", false, "")
	self := f.Bool("self", false, "")
	if !c.parse(f, args, 0, 1, c.Help()) {
		return 1
	}
	if *enable == *disable {
		return c.fail(f, errors.New("either -enable or -disable has to be set"))
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	node, err := nodeOf(client, *self, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	if _, err := client.Nodes().ToggleEligibility(node.ID, *enable, nil); err != nil {
		return c.fail(f, err)
	}
	word := nomad.NodeSchedulingEligible
	if *disable {
		word = nomad.NodeSchedulingIneligible
	}
	c.ui.Output(fmt.Sprintf("Node %q scheduling eligibility set: %s for scheduling", node.ID, word))
	return 0
}
