package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

type namespaceListCommand struct{ meta }

// Synopsis implements [subcommand].
func (*namespaceListCommand) Synopsis() string { return "List the namespaces" }

// Help implements [subcommand].
func (*namespaceListCommand) Help() string {
	return `Usage: wasmnode namespace list [options]

  Lists the namespaces, those that the token may see.

Options:
` + listOptions + commonOptions
}

// Run implements [subcommand].
func (c *namespaceListCommand) Run(args []string) int {
	f := c.flags("namespace list")
	var l listFlags
	l.bind(f)
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	list, more, err := client.Namespaces().List(l.query())
	if err != nil {
		return c.fail(f, err)
	}
	slices.SortFunc(list, func(a, b *nomad.Namespace) int { return cmp.Compare(a.Name, b.Name) })
	if *f.json {
		return c.printJSON(list)
	}
	if len(list) == 0 {
		c.ui.Output("No namespaces found")
		return 0
	}
	rows := [][]string{{"Name", "Description"}}
	for _, n := range list {
		rows = append(rows, []string{n.Name, n.Description})
	}
	c.table(rows)
	c.more(more)
	return 0
}

type namespaceInspectCommand struct{ meta }

// Synopsis implements [subcommand].
func (*namespaceInspectCommand) Synopsis() string { return "Print a namespace as JSON" }

// Help implements [subcommand].
func (*namespaceInspectCommand) Help() string {
	return `Usage: wasmnode namespace inspect [options] NAMESPACE

  Prints a namespace as the node has it. NAMESPACE may be the beginning of a name.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *namespaceInspectCommand) Run(args []string) int {
	f := c.flags("namespace inspect")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	n, err := findNamespace(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	return c.printJSON(n)
}

type namespaceStatusCommand struct{ meta }

// Synopsis implements [subcommand].
func (*namespaceStatusCommand) Synopsis() string { return "Show a namespace" }

// Help implements [subcommand].
func (*namespaceStatusCommand) Help() string {
	return `Usage: wasmnode namespace status [options] NAMESPACE

  Shows a namespace. NAMESPACE may be the beginning of a name.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *namespaceStatusCommand) Run(args []string) int {
	f := c.flags("namespace status")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	n, err := findNamespace(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(n)
	}
	can := n.Capabilities
	if can == nil {
		can = &nomad.NamespaceCapabilities{}
	}
	c.pairs([][2]string{
		{"Name", n.Name}, {"Description", n.Description}, {"Quota", n.Quota},
		{"Enabled Drivers", orAll(can.EnabledTaskDrivers)}, {"Disabled Drivers", strings.Join(can.DisabledTaskDrivers, ",")},
		{"Enabled Network Modes", orAll(can.EnabledNetworkModes)}, {"Disabled Network Modes", strings.Join(can.DisabledNetworkModes, ",")},
	})
	if len(n.Meta) > 0 {
		c.section("Metadata", n.Meta)
	}
	return 0
}

// orAll is a list of what is enabled: everything, where nothing is named.
func orAll(names []string) string {
	if len(names) == 0 {
		return "*"
	}
	return strings.Join(names, ",")
}

// findNamespace returns the one namespace whose name is, or begins with, a text.
func findNamespace(client *nomad.Client, text string) (*nomad.Namespace, error) {
	list, _, err := client.Namespaces().PrefixList(text, nil)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, n := range list {
		if n.Name == text {
			return n, nil
		}
		names = append(names, n.Name)
	}
	switch len(list) {
	case 0:
		return nil, fmt.Errorf("Namespace %q matched no namespaces", text) //nolint:staticcheck // as in Nomad
	case 1:
		return list[0], nil
	}
	slices.Sort(names)
	_, err = one("namespace", text, names)
	return nil, err
}
