package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/wasmnode/wasmnode/host"
)

type pluginInspectCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginInspectCommand) Synopsis() string { return "Read a plugin's file without running it" }

// Help implements [subcommand].
func (*pluginInspectCommand) Help() string {
	return `Usage: wasmnode plugin inspect [options] FILE

  Says what a plugin's file is and what it asks for, from the file alone: none of it
  runs, and no node is needed.

Options:

  -json   Print JSON.`
}

// Run implements [subcommand].
func (c *pluginInspectCommand) Run(args []string) int {
	f := c.flags("plugin inspect")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	wasm, err := os.ReadFile(f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	spec, err := host.Inspect(wasm, host.DefaultLimits().FileBytes)
	if err != nil {
		return c.fail(f, fmt.Errorf("%s: %w", f.Arg(0), err))
	}
	if *f.json {
		return c.printJSON(spec)
	}
	var producers []string
	for _, p := range spec.Producers {
		producers = append(producers, strings.TrimSpace(p.Name+" "+p.Version))
	}
	var m host.Metadata
	if spec.Metadata != nil {
		m = *spec.Metadata
	}
	c.pairs([][2]string{
		{"File", f.Arg(0)},
		{"Name", strings.TrimSpace(m.Name + " " + m.Version)},
		{"License", m.License},
		{"Source", m.Source},
		{"Needs ABI", m.MinABI},
		{"Size", humanize.IBytes(uint64(spec.Size))},
		{"SHA-256", spec.Digest},
		{"Type", string(spec.Kind)},
		{"Made by", strings.Join(producers, ", ")},
		{"Functions", strconv.Itoa(spec.Code.Functions)},
		{"Capabilities", strings.Join(spec.Capabilities, ", ")},
		{"Operations", strings.Join(spec.Operations, ", ")},
	})
	return 0
}
