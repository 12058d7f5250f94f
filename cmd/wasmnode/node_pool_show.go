package main

import (
	"strconv"

	nomad "github.com/hashicorp/nomad/api"
)

type nodePoolListCommand struct{ meta }

// Synopsis implements [subcommand].
func (*nodePoolListCommand) Synopsis() string { return "List the node pools" }

// Help implements [subcommand].
func (*nodePoolListCommand) Help() string {
	return `Usage: wasmnode node pool list [options]

  Lists the node pools.

Options:
` + listOptions + commonOptions
}

// Run implements [subcommand].
func (c *nodePoolListCommand) Run(args []string) int {
	f := c.flags("node pool list")
	var l listFlags
	l.bind(f)
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	pools, meta, err := client.NodePools().List(l.query())
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(pools)
	}
	rows := [][]string{{"Name", "Description"}}
	for _, p := range pools {
		rows = append(rows, []string{p.Name, p.Description})
	}
	c.table(rows)
	c.more(meta)
	return 0
}

type nodePoolInfoCommand struct{ meta }

// Synopsis implements [subcommand].
func (*nodePoolInfoCommand) Synopsis() string { return "Show a node pool" }

// Help implements [subcommand].
func (*nodePoolInfoCommand) Help() string {
	return `Usage: wasmnode node pool info [options] POOL

  Shows a node pool.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *nodePoolInfoCommand) Run(args []string) int {
	f := c.flags("node pool info")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	p, _, err := client.NodePools().Info(f.Arg(0), nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(p)
	}
	c.pairs([][2]string{{"Name", p.Name}, {"Description", p.Description}})
	c.section("Metadata", p.Meta)
	return 0
}

type nodePoolNodesCommand struct{ meta }

// Synopsis implements [subcommand].
func (*nodePoolNodesCommand) Synopsis() string { return "List the nodes of a node pool" }

// Help implements [subcommand].
func (*nodePoolNodesCommand) Help() string {
	return `Usage: wasmnode node pool nodes [options] POOL

  Lists the nodes of a node pool.

Options:
` + listOptions + commonOptions
}

// Run implements [subcommand].
func (c *nodePoolNodesCommand) Run(args []string) int {
	f := c.flags("node pool nodes")
	var l listFlags
	l.bind(f)
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	nodes, meta, err := client.NodePools().ListNodes(f.Arg(0), l.query())
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(nodes)
	}
	if len(nodes) == 0 {
		c.ui.Output("No nodes")
		return 0
	}
	c.nodeTable(f, nodes, nil)
	c.more(meta)
	return 0
}

type nodePoolJobsCommand struct{ meta }

// Synopsis implements [subcommand].
func (*nodePoolJobsCommand) Synopsis() string { return "List the jobs of a node pool" }

// Help implements [subcommand].
func (*nodePoolJobsCommand) Help() string {
	return `Usage: wasmnode node pool jobs [options] POOL

  Lists the jobs of a node pool.

Options:
` + listOptions + commonOptions
}

// Run implements [subcommand].
func (c *nodePoolJobsCommand) Run(args []string) int {
	f := c.flags("node pool jobs")
	var l listFlags
	l.bind(f)
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	jobs, meta, err := client.NodePools().ListJobs(f.Arg(0), l.query())
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(jobs)
	}
	if len(jobs) == 0 {
		c.ui.Output("No jobs")
		return 0
	}
	rows := [][]string{{"ID", "Type", "Priority", "Status", "Submit Date"}}
	for _, j := range jobs {
		rows = append(rows, []string{j.ID, j.Type, strconv.Itoa(j.Priority), j.Status, stamp(j.SubmitTime)})
	}
	c.table(rows)
	c.more(meta)
	return 0
}

// listFlags are those of lists that can be cut and filtered.
type listFlags struct {
	filter, token string
	perPage       int
}

func (l *listFlags) bind(f *flags) {
	f.StringVar(&l.filter, "filter", "", "")
	f.StringVar(&l.token, "page-token", "", "")
	f.IntVar(&l.perPage, "per-page", 0, "")
}

func (l *listFlags) query() *nomad.QueryOptions {
	return &nomad.QueryOptions{Filter: l.filter, NextToken: l.token, PerPage: int32(min(max(0, l.perPage), 1<<30))}
}

// more says how to see what follows a page.
func (m meta) more(q *nomad.QueryMeta) {
	if q != nil && q.NextToken != "" {
		m.ui.Output("\nResults have been paginated. To get the next page run:\n\n" + m.running.again("page-token", q.NextToken))
	}
}

// listOptions are the options of [listFlags].
const listOptions = `
  -filter=EXPR       Only what an expression is true of.
  -per-page=N        At most so many.
  -page-token=NEXT   Those from there on.`
