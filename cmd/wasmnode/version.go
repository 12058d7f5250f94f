package main

import "github.com/wasmnode/wasmnode/agent"

type versionCommand struct{ meta }

// Synopsis implements [subcommand].
func (*versionCommand) Synopsis() string { return "Print the version" }

// Help implements [subcommand].
func (*versionCommand) Help() string {
	return "Usage: wasmnode version\n\n  Prints the version of this binary."
}

// Run implements [subcommand].
func (c *versionCommand) Run([]string) int {
	c.ui.Output("wasmnode " + agent.Version)
	return 0
}
