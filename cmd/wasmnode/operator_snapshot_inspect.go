package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/wasmnode/wasmnode/agent"
)

type operatorSnapshotInspectCommand struct{ meta }

// Synopsis implements [subcommand].
func (*operatorSnapshotInspectCommand) Synopsis() string {
	return "Check a snapshot and show what it is of"
}

// Help implements [subcommand].
func (*operatorSnapshotInspectCommand) Help() string {
	return `Usage: wasmnode operator snapshot inspect [options] FILE

  Reads all of a snapshot, checks it, and shows what is in it. It needs no node.

Options:

  -json   Print JSON.`
}

// Run implements [subcommand].
func (c *operatorSnapshotInspectCommand) Run(args []string) int {
	f := c.flags("operator snapshot inspect")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	file, err := os.Open(f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	defer file.Close()
	m, err := agent.InspectSnapshot(file)
	if err != nil {
		return c.fail(f, fmt.Errorf("%s: %w", f.Arg(0), err))
	}
	if *f.json {
		return c.printJSON(m)
	}
	c.pairs([][2]string{
		{"ID", m.ID},
		{"Created", m.Created.Format(time.RFC3339)},
		{"Size", strconv.FormatInt(m.Size, 10)},
		{"Index", strconv.FormatUint(m.Index, 10)},
		{"Schema", strconv.Itoa(m.Schema)},
		{"Jobs", strconv.Itoa(m.Jobs)},
		{"Allocations", strconv.Itoa(m.Allocations)},
		{"Evaluations", strconv.Itoa(m.Evaluations)},
		{"Nodes", strconv.Itoa(m.Nodes)},
	})
	return 0
}
