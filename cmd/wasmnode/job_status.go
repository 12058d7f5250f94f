package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

type jobStatusCommand struct{ meta }

// jobDetails are what is shown of a job.
type jobDetails struct{ short, evals, allAllocs bool }

// Synopsis implements [subcommand].
func (*jobStatusCommand) Synopsis() string { return "Show jobs, or one job" }

// Help implements [subcommand].
func (*jobStatusCommand) Help() string {
	return `Usage: wasmnode job status [options] [JOB]

  Lists the jobs, or shows one with its allocations. JOB may be the beginning of an
  ID.

Options:

  -short        Show neither allocations nor what else is listed.
  -evals        Show the evaluations, too.
  -all-allocs   Show the allocations, too, of an earlier job of that ID, which was purged.` + commonOptions
}

// Run implements [subcommand].
func (c *jobStatusCommand) Run(args []string) int {
	f := c.flags("job status")
	var d jobDetails
	f.BoolVar(&d.short, "short", false, "")
	f.BoolVar(&d.evals, "evals", false, "")
	f.BoolVar(&d.allAllocs, "all-allocs", false, "")
	client := c.connect(f, args, 0, 1, c.Help())
	if client == nil {
		return 1
	}
	if f.NArg() == 0 {
		return c.list(f, client)
	}
	return c.show(f, client, d)
}

func (c *jobStatusCommand) list(f *flags, client *nomad.Client) int {
	jobs, _, err := client.Jobs().List(nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(jobs)
	}
	if len(jobs) == 0 {
		c.ui.Output("No running jobs")
		return 0
	}
	rows := [][]string{{"ID", "Type", "Priority", "Status", "Submit Date"}}
	for _, j := range jobs {
		status := j.Status
		if j.Stop {
			status += " (stopped)"
		}
		rows = append(rows, []string{j.ID, kind(j), strconv.Itoa(j.Priority), status, stamp(j.SubmitTime)})
	}
	if f.namespace == nomad.AllNamespacesNamespace {
		rows[0] = slices.Insert(rows[0], 1, "Namespace")
		for i, j := range jobs {
			rows[i+1] = slices.Insert(rows[i+1], 1, j.Namespace)
		}
	}
	c.table(rows)
	return 0
}

func (c *jobStatusCommand) show(f *flags, client *nomad.Client, details jobDetails) int {
	job, err := findJob(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	switch {
	case *f.json:
		return c.printJSON(job)
	case details.short:
		c.head(job)
		return 0
	}
	summary, _, err := client.Jobs().Summary(*job.ID, nil)
	if err != nil {
		return c.fail(f, err)
	}
	if isParent(job) {
		c.head(job)
		if err := c.showChildren(client, job, summary); err != nil {
			return c.fail(f, err)
		}
		return 0
	}
	allocs, _, err := client.Jobs().Allocations(*job.ID, details.allAllocs, nil)
	if err != nil {
		return c.fail(f, err)
	}
	evals, _, err := client.Jobs().Evaluations(*job.ID, nil)
	if err != nil {
		return c.fail(f, err)
	}
	c.head(job)
	c.summary(summary)
	c.blocked(client, evals)
	c.reschedulesAhead(f, allocs, evals)
	if details.evals || *f.verbose {
		c.evaluations(f, evals)
	}
	if err := c.deployment(f, client, job); err != nil {
		return c.fail(f, err)
	}
	c.actions(job)
	c.ui.Output("\nAllocations")
	allocationTable(c.meta, f, allocs)
	return 0
}

// evaluations lists those of the job: what all of them have in common is left out.
func (c *jobStatusCommand) evaluations(f *flags, evals []*nomad.Evaluation) {
	c.ui.Output("\nEvaluations")
	rows := [][]string{{"ID", "Priority", "Triggered By", "Status", "Placement Failures"}}
	for _, e := range evals {
		rows = append(rows, []string{f.short(e.ID), strconv.Itoa(e.Priority), e.TriggeredBy, e.Status, placementFailed(e)})
	}
	c.table(rows)
}

// actions lists what can be run in the job's tasks.
func (c *jobStatusCommand) actions(job *nomad.Job) {
	rows := [][]string{{"Action Name", "Task Group", "Task"}}
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			for _, a := range t.Actions {
				rows = append(rows, []string{a.Name, *g.Name, t.Name})
			}
		}
	}
	if len(rows) > 1 {
		c.ui.Output("\nActions")
		c.table(rows)
	}
}

func (c *jobStatusCommand) head(job *nomad.Job) {
	status := *job.Status
	if *job.Stop {
		status += " (stopped)"
	}
	c.pairs(append([][2]string{
		{"ID", *job.ID},
		{"Name", *job.Name},
		{"Submit Date", stamp(*job.SubmitTime)},
		{"Type", *job.Type},
		{"Priority", strconv.Itoa(*job.Priority)},
		{"Datacenters", strings.Join(job.Datacenters, ",")},
		{"Namespace", *job.Namespace},
		{"Node Pool", *job.NodePool},
		{"Status", status},
		{"Version", strconv.FormatUint(*job.Version, 10)},
		{"Periodic", strconv.FormatBool(job.IsPeriodic())},
		{"Parameterized", strconv.FormatBool(job.IsParameterized())},
	}, launches(job)...))
}

func (c *jobStatusCommand) summary(s *nomad.JobSummary) {
	c.ui.Output("\nSummary")
	rows := [][]string{{"Task Group", "Queued", "Starting", "Running", "Failed", "Complete", "Lost", "Unknown"}}
	for _, group := range slices.Sorted(maps.Keys(s.Summary)) {
		g := s.Summary[group]
		row := []string{group}
		for _, n := range []int{g.Queued, g.Starting, g.Running, g.Failed, g.Complete, g.Lost, g.Unknown} {
			row = append(row, strconv.Itoa(n))
		}
		rows = append(rows, row)
	}
	c.table(rows)
}

// blocked prints what of the job waits to be placed, and why: what its blocked evaluation says.
// Those that have ended tell what was.
func (c *jobStatusCommand) blocked(client *nomad.Client, evals []*nomad.Evaluation) {
	i := slices.IndexFunc(evals, func(e *nomad.Evaluation) bool { return e.Status == "blocked" })
	if i < 0 {
		return
	}
	nodes, failed := nodesThatTake(client), evals[i].FailedTGAllocs
	c.ui.Output("\nPlacement Failure")
	for _, group := range slices.Sorted(maps.Keys(failed)) {
		c.ui.Output("Task Group \"" + group + "\":")
		for _, line := range placementReasons(failed[group], nodes) {
			c.ui.Output("  * " + line)
		}
	}
}

// deployment prints the job's latest deployment, if it has one.
func (c *jobStatusCommand) deployment(f *flags, client *nomad.Client, job *nomad.Job) error {
	d, _, err := client.Jobs().LatestDeployment(*job.ID, nil)
	if err == nil && d != nil {
		c.ui.Output("\nLatest Deployment")
		c.showDeployment(f, d, true)
	}
	return err
}

// allocationTable lists allocations, the newest first.
func allocationTable(m meta, f *flags, allocs []*nomad.AllocationListStub) {
	if len(allocs) == 0 {
		m.ui.Output("No allocations placed")
		return
	}
	slices.SortFunc(allocs, func(a, b *nomad.AllocationListStub) int { return int(b.CreateIndex) - int(a.CreateIndex) })
	rows := [][]string{{"ID", "Node ID", "Task Group", "Version", "Desired", "Status", "Created", "Modified"}}
	if *f.verbose {
		rows[0] = slices.Insert(slices.Insert(rows[0], 2, "Node Name"), 1, "Eval ID")
	}
	for _, a := range allocs {
		row := []string{
			f.short(a.ID), f.short(a.NodeID), a.TaskGroup, strconv.FormatUint(a.JobVersion, 10),
			a.DesiredStatus, a.ClientStatus, f.when(a.CreateTime), f.when(a.ModifyTime),
		}
		if *f.verbose {
			row = slices.Insert(slices.Insert(row, 2, a.NodeName), 1, a.EvalID)
		}
		rows = append(rows, row)
	}
	m.table(rows)
}
