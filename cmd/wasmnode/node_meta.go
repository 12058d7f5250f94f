package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

type nodeMetaApplyCommand struct{ meta }

// Synopsis implements [subcommand].
func (*nodeMetaApplyCommand) Synopsis() string { return "Set metadata of a node while it runs" }

// Help implements [subcommand].
func (*nodeMetaApplyCommand) Help() string {
	return `Usage: wasmnode node meta apply [options] [KEY=VALUE...]

  Sets metadata of a node, over what its configuration sets. It is kept when the agent
  restarts, and what waits for it is placed.

Options:

  -node-id=NODE    Of this node, and not of the one that answers.
  -unset=KEY,...   Remove these, also what the configuration sets.` + commonOptions
}

// Run implements [subcommand].
func (c *nodeMetaApplyCommand) Run(args []string) int {
	f := c.flags("node meta apply")
	id := f.String("node-id", "", "")
	unset := f.String("unset", "", "")
	if !c.parse(f, args, 0, maxMetaArguments, c.Help()) {
		return 1
	}
	changes, err := metaChanges(f.Args(), *unset)
	if err != nil {
		return c.fail(f, err)
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	node, err := fullNodeID(client, *id)
	if err != nil {
		return c.fail(f, err)
	}
	m, err := client.Nodes().Meta().Apply(&nomad.NodeMetaApplyRequest{NodeID: node, Meta: changes}, nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(m)
	}
	return 0
}

// maxMetaArguments bounds what one command sets: the node keeps no more.
const maxMetaArguments = 512

func metaChanges(set []string, unset string) (map[string]*string, error) {
	changes := map[string]*string{}
	for _, text := range set {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%q is not of the form KEY=VALUE", text)
		}
		changes[key] = &value
	}
	for _, key := range strings.FieldsFunc(unset, func(r rune) bool { return r == ',' }) {
		changes[key] = nil
	}
	if len(changes) == 0 {
		return nil, errors.New("nothing to set: KEY=VALUE, or -unset")
	}
	return changes, nil
}

// fullNodeID completes the ID of a node; empty: the one that answers.
func fullNodeID(c *nomad.Client, id string) (string, error) {
	if id == "" {
		return "", nil
	}
	n, err := findNode(c, id)
	if err != nil {
		return "", err
	}
	return n.ID, nil
}

type nodeMetaReadCommand struct{ meta }

// Synopsis implements [subcommand].
func (*nodeMetaReadCommand) Synopsis() string { return "Show metadata of a node, and where it is from" }

// Help implements [subcommand].
func (*nodeMetaReadCommand) Help() string {
	return `Usage: wasmnode node meta read [options]

  Shows the metadata of a node: all of it, what was set while it runs, and what its
  configuration sets.

Options:

  -node-id=NODE   Of this node, and not of the one that answers.` + commonOptions
}

// Run implements [subcommand].
func (c *nodeMetaReadCommand) Run(args []string) int {
	f := c.flags("node meta read")
	id := f.String("node-id", "", "")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	node, err := fullNodeID(client, *id)
	if err != nil {
		return c.fail(f, err)
	}
	m, err := client.Nodes().Meta().Read(node, nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(m)
	}
	dynamic := map[string]string{}
	for key, value := range m.Dynamic {
		dynamic[key] = "<unset>"
		if value != nil {
			dynamic[key] = *value
		}
	}
	c.section("All Meta", m.Meta)
	c.section("Dynamic Meta", dynamic)
	c.section("Static Meta", m.Static)
	return 0
}

// section prints a heading and names with values.
func (m meta) section(heading string, values map[string]string) {
	m.ui.Output("\n" + heading)
	var pairs [][2]string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		pairs = append(pairs, [2]string{name, values[name]})
	}
	if len(pairs) == 0 {
		m.ui.Output("<none>")
		return
	}
	m.pairs(pairs)
}
