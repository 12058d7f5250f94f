package main

import (
	"errors"
	"fmt"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/internal/boltfile"
)

type operatorClientStateCommand struct{ meta }

// Synopsis implements [subcommand].
func (*operatorClientStateCommand) Synopsis() string {
	return "Show what a node keeps of what it runs"
}

// Help implements [subcommand].
func (*operatorClientStateCommand) Help() string {
	return `Usage: wasmnode operator client-state [options] DIR

  Prints, as JSON, what is kept in a data directory of the allocations of a node, by which
  the next agent takes them up again. No agent may use the directory. What tasks were
  given is left out: it may be secret.

Options:

  -t=TEMPLATE  Print it by a template of Go's.`
}

// Run implements [subcommand].
func (c *operatorClientStateCommand) Run(args []string) int {
	f := c.flags("operator client-state")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	kept, err := agent.ReadClientState(f.Arg(0))
	switch {
	case errors.Is(err, boltfile.ErrLocked):
		return c.fail(f, fmt.Errorf("%s: an agent uses it: end it first, or ask it", f.Arg(0)))
	case err != nil:
		return c.fail(f, err)
	}
	return c.printJSON(kept)
}
