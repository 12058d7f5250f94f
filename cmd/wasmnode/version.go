package main

import (
	"flag"
	"fmt"
	"io"

	"github.com/wasmnode/wasmnode/agent"
)

type versionCommand struct{ meta }

// Synopsis implements [subcommand].
func (*versionCommand) Synopsis() string { return "Print the version" }

// Help implements [subcommand].
func (*versionCommand) Help() string {
	return `Usage: wasmnode version [options]

  Prints the version of this binary.

Options:

  -v     Print what it is made of, too: the commit, the versions of Go, of wazero and of the
         contract with plugins, and the newest schemas of data that it reads.
  -json  Print that as JSON.`
}

// Run implements [subcommand].
func (c *versionCommand) Run(args []string) int {
	f := flag.NewFlagSet("version", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	verbose, asJSON := f.Bool("v", false, ""), f.Bool("json", false, "")
	if code, ok := c.parseAlone(f, args, c.Help()); !ok {
		return code
	}
	b := agent.ThisBuild()
	switch {
	case *asJSON:
		return c.printJSON(b)
	case *verbose:
		c.pairs([][2]string{
			{"Version", b.Version}, {"Commit", b.Commit}, {"Go", b.Go}, {"Platform", b.Platform}, {"wazero", b.Wazero}, {"Plugin ABI", b.ABI},
			{"Client schema", fmt.Sprint(b.ClientSchema)}, {"Server schema", fmt.Sprint(b.ServerSchema)},
		})
	default:
		c.ui.Output("wasmnode " + b.Version)
	}
	return 0
}
