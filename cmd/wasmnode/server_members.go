package main

import (
	"fmt"
	"net"
	"slices"
	"strconv"
)

type serverMembersCommand struct{ meta }

// Synopsis implements [subcommand].
func (*serverMembersCommand) Synopsis() string { return "Show the servers: there is the node's own" }

// Help implements [subcommand].
func (*serverMembersCommand) Help() string {
	return `Usage: wasmnode server members [options]

  Shows the servers that are known. A node is its own server, and its leader.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *serverMembersCommand) Run(args []string) int {
	f := c.flags("server members")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	known, err := client.Agent().Members()
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(known.Members)
	}
	leader, err := client.Status().Leader()
	if err != nil {
		return c.fail(f, err)
	}
	rows := [][]string{{"Name", "Address", "Port", "Status", "Leader", "Build", "Datacenter", "Region"}}
	for _, m := range known.Members {
		port := strconv.Itoa(int(m.Port))
		rows = append(rows, []string{
			m.Name, m.Addr, port, m.Status, strconv.FormatBool(len(known.Members) == 1 || leader == net.JoinHostPort(m.Addr, port)),
			m.Tags["build"], m.Tags["dc"], m.Tags["region"],
		})
	}
	c.table(rows)
	return 0
}

type agentInfoCommand struct{ meta }

// Synopsis implements [subcommand].
func (*agentInfoCommand) Synopsis() string { return "Show figures of the agent" }

// Help implements [subcommand].
func (*agentInfoCommand) Help() string {
	return `Usage: wasmnode agent-info [options]

  Shows what the agent says of itself.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *agentInfoCommand) Run(args []string) int {
	f := c.flags("agent-info")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	self, err := client.Agent().Self()
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(self)
	}
	for _, part := range sortedKeys(self.Stats) {
		c.ui.Output(part)
		for _, name := range sortedKeys(self.Stats[part]) {
			c.ui.Output(fmt.Sprintf("  %s = %s", name, self.Stats[part][name]))
		}
	}
	return 0
}

func sortedKeys[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

type systemReconcileCommand struct{ meta }

// Synopsis implements [subcommand].
func (*systemReconcileCommand) Synopsis() string { return "Count the allocations of all jobs anew" }

// Help implements [subcommand].
func (*systemReconcileCommand) Help() string {
	return `Usage: wasmnode system reconcile summaries [options]

  Has the summaries of all jobs counted anew. They are counted whenever they are asked
  for, so that there is nothing to mend.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *systemReconcileCommand) Run(args []string) int {
	f := c.flags("system reconcile summaries")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	if err := client.System().ReconcileSummaries(); err != nil {
		return c.fail(f, err)
	}
	return 0
}
