package main

import (
	"strconv"

	nomad "github.com/hashicorp/nomad/api"
)

type evalListCommand struct{ meta }

// Synopsis implements [subcommand].
func (*evalListCommand) Synopsis() string { return "List the evaluations" }

// Help implements [subcommand].
func (*evalListCommand) Help() string {
	return `Usage: wasmnode eval list [options]

  Lists the evaluations, the newest first.

Options:

  -job=JOB        Only those of a job.
  -status=STATUS  Only those with a status: blocked, canceled, complete, failed or pending.
  -filter=TEXT    Only those that an expression of the API's filter language fits.
  -per-page=N     At most so many, and what the next page begins with.
  -page-token=ID  Begin with this one.` + commonOptions
}

// Run implements [subcommand].
func (c *evalListCommand) Run(args []string) int {
	f := c.flags("eval list")
	job, status := f.String("job", "", ""), f.String("status", "", "")
	var l listFlags
	l.bind(f)
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	q := l.query()
	q.Params = map[string]string{}
	for name, value := range map[string]string{"job": *job, "status": *status} {
		if value != "" {
			q.Params[name] = value
		}
	}
	evals, meta, err := client.Evaluations().List(q)
	switch {
	case err != nil:
		return c.fail(f, err)
	case *f.json:
		return c.printJSON(evals)
	case len(evals) == 0:
		c.ui.Output("No evals found")
	default:
		c.evalTable(f, evals)
	}
	c.more(meta)
	return 0
}

// evalTable lists evaluations.
func (m meta) evalTable(f *flags, evals []*nomad.Evaluation) {
	rows := [][]string{{"ID", "Priority", "Triggered By", "Job ID", "Namespace", "Node ID", "Status", "Placement Failures"}}
	for _, e := range evals {
		rows = append(rows, []string{
			f.short(e.ID), strconv.Itoa(e.Priority), e.TriggeredBy, e.JobID, e.Namespace, f.short(e.NodeID), e.Status, placementFailed(e),
		})
	}
	m.table(rows)
}

// placementFailed tells whether something could not be placed; nobody knows it of what waits.
func placementFailed(e *nomad.Evaluation) string {
	if e.Status == nomad.EvalStatusBlocked {
		return "N/A - In Progress"
	}
	return strconv.FormatBool(len(e.FailedTGAllocs) > 0)
}
