package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	nomad "github.com/hashicorp/nomad/api"
)

type varGetCommand struct{ meta }

// Synopsis implements [subcommand].
func (*varGetCommand) Synopsis() string { return "Show a variable" }

// Help implements [subcommand].
func (*varGetCommand) Help() string {
	return `Usage: wasmnode var get [options] PATH

  Shows a variable with its items.

Options:

  -item=KEY        Print the value of one item alone, without the end of a line.
  -out=FORM        go-template, hcl, json, none or table. Without it, table for a
                   terminal and json for anything else.
  -template=TEXT   The template of -out=go-template.` + commonOptions
}

// Run implements [subcommand].
func (c *varGetCommand) Run(args []string) int {
	f := c.flags("var get")
	out := c.varForm(f, "table", "go-template", "hcl", "json", "none", "table")
	item := f.String("item", "", "")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	if err := out.check(f); err != nil {
		return c.fail(f, err)
	}
	if f.namespace == "*" {
		return c.fail(f, errAllNamespaces)
	}
	v, _, err := client.Variables().Read(f.Arg(0), nil)
	if errors.Is(err, nomad.ErrVariablePathNotFound) {
		c.ui.Warn("Variable not found")
		return 1
	}
	if err != nil {
		return c.fail(f, err)
	}
	if *item != "" {
		return c.printItem(f, v, *item)
	}
	return c.printVariable(f, out, v)
}

// printItem prints a value as it is: a program that reads it wants that. A terminal is not
// driven by it.
func (c *varGetCommand) printItem(f *flags, v *nomad.Variable, key string) int {
	value, is := v.Items[key]
	if !is {
		return c.fail(f, fmt.Errorf("Variable does not contain %q item", key)) //nolint:staticcheck // as in Nomad
	}
	if isTerminal(os.Stdout) {
		value = harmless(value)
	}
	if _, err := io.WriteString(c.ui.out, value); err != nil {
		return c.fail(f, err)
	}
	return 0
}
