package main

import (
	"math"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

type varListCommand struct{ meta }

// Synopsis implements [subcommand].
func (*varListCommand) Synopsis() string { return "List variables" }

// Help implements [subcommand].
func (*varListCommand) Help() string {
	return `Usage: wasmnode var list [options] [PREFIX]

  Lists the variables whose path begins so, without what they have.

Options:

  -filter=EXPRESSION
                   Those of which it is true, such as 'Path matches "^app/"'.
  -per-page=N, -page-token=TOKEN
                   A page of so many, and where it begins.
  -out=FORM        go-template, json, table or terse: paths alone. Without it, table
                   for a terminal and json for anything else.
  -template=TEXT   The template of -out=go-template.` + commonOptions
}

// Run implements [subcommand].
func (c *varListCommand) Run(args []string) int {
	f := c.flags("var list")
	out := c.varForm(f, "table", "go-template", "json", "table", "terse")
	filter, perPage, token := f.String("filter", "", ""), f.Uint("per-page", 0, ""), f.String("page-token", "", "")
	client := c.connect(f, args, 0, 1, c.Help())
	if client == nil {
		return 1
	}
	if err := out.check(f); err != nil {
		return c.fail(f, err)
	}
	list, meta, err := client.Variables().PrefixList(strings.TrimLeft(f.Arg(0), "/"), &nomad.QueryOptions{
		Filter: *filter, PerPage: int32(min(*perPage, math.MaxInt32)), NextToken: *token,
	})
	if err != nil {
		return c.fail(f, err)
	}
	switch {
	case c.templated():
		return c.printJSON(list)
	case out.form == "go-template":
		return c.printTemplate(f, out, list)
	case out.form == "json" && *perPage > 0:
		return c.printJSON(struct {
			Data      []*nomad.VariableMetadata
			QueryMeta *nomad.QueryMeta
		}{list, meta})
	case out.form == "json":
		return c.printJSON(list)
	}
	c.variableList(f, out, list)
	if meta.NextToken != "" {
		c.ui.Warn("Next page token: " + meta.NextToken)
	}
	return 0
}

func (c *varListCommand) variableList(f *flags, o *varForm, list []*nomad.VariableMetadata) {
	if len(list) == 0 {
		c.ui.Warn("No matching variables found")
		return
	}
	rows := [][]string{{"Namespace", "Path", "Last Updated"}}
	for _, v := range list {
		switch {
		case o.form != "terse":
			rows = append(rows, []string{v.Namespace, v.Path, stamp(v.ModifyTime)})
		case f.namespace == "*":
			c.ui.Output(v.Namespace + "|" + v.Path)
		default:
			c.ui.Output(v.Path)
		}
	}
	if o.form != "terse" {
		c.table(rows)
	}
}
