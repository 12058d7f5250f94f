package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

type jobPlanCommand struct{ meta }

// planFailed is the exit code of a plan that could not be made.
const planFailed = 255

// Synopsis implements [subcommand].
func (*jobPlanCommand) Synopsis() string { return "Show what running a job would change" }

// Help implements [subcommand].
func (*jobPlanCommand) Help() string {
	return `Usage: wasmnode job plan [options] FILE

  Compares the job in a file ("-" reads standard input) with the one that is registered,
  and has the scheduler decide what it would do, without doing it.

  The exit code is 0 when no allocation would be made or ended, 1 when some would, and
  255 when there is no plan because something is wrong.

  What the node's drivers say of the tasks' config blocks is among its warnings. With
  -plugin-dir the drivers in a directory are asked first, and what they refuse ends it.

Options:

  -diff=false         Do not show the differences.
  -json-output        Print the plan as JSON.
  -json               The file is JSON; otherwise it is seen by what it begins with.
  -plugin-dir=DIR     The drivers are the .wasm files in this directory, besides the
                      node's. They are loaded, and granted nothing.
  -var=NAME=VALUE     Set a variable of the file; may be given several times.
  -var-file=FILE      Set variables from a file; may be given several times.
  -policy-override    Refused: there are no Sentinel policies.` + commonOptions
}

// Run implements [subcommand].
func (c *jobPlanCommand) Run(args []string) int {
	f := c.flags("job plan")
	var file jobFile
	file.flags(f)
	diff, dir := f.Bool("diff", true, ""), f.String("plugin-dir", "", "")
	override, asJSON := f.Bool("policy-override", false, ""), f.Bool("json-output", false, "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return planFailed
	}
	if *override {
		c.fail(f, errors.New("-policy-override: there are no Sentinel policies"))
		return planFailed
	}
	job, _, err := file.read(f.Arg(0))
	if err != nil {
		c.unreadable(f, &file, err)
		return planFailed
	}
	if *dir != "" && !c.check(f, &file, job, *dir) {
		return planFailed
	}
	client, err := c.client(f)
	if err != nil {
		c.fail(f, err)
		return planFailed
	}
	followNamespace(client, job)
	plan, _, err := client.Jobs().Plan(job, *diff, nil)
	if err != nil {
		c.refused(f, client, &file, job, err)
		return planFailed
	}
	if c.templated() || *asJSON {
		c.printJSON(plan)
	} else {
		c.show(f, &file, plan, nodesThatTake(client), *diff)
	}
	return changes(plan)
}

// check reports whether a job is one that the drivers in a directory take, and prints why it is not.
func (c *jobPlanCommand) check(f *flags, file *jobFile, job *nomad.Job, dir string) bool {
	resp, err := validateWith(dir, job)
	if err != nil {
		c.fail(f, err)
		return false
	}
	if len(resp.ValidationErrors) > 0 {
		c.invalid(file, resp.ValidationErrors)
		return false
	}
	c.jobWarnings(file, resp.Warnings)
	return true
}

// changes is the exit code: whether allocations would be made or ended.
func changes(plan *nomad.JobPlanResponse) int {
	for _, u := range plan.Annotations.DesiredTGUpdates {
		if u.Place+u.Stop+u.DestructiveUpdate+u.Migrate+u.Canary+u.RescheduleNow > 0 {
			return 1
		}
	}
	return 0
}

func (c *jobPlanCommand) show(f *flags, file *jobFile, plan *nomad.JobPlanResponse, nodes []*nomad.Node, diff bool) {
	again := append(file.args(), f.Arg(0))
	if f.namespace != "" {
		again = append([]string{fmt.Sprintf("-namespace=%q", f.namespace)}, again...)
	}
	if diff && plan.Diff != nil {
		if plan.Diff.Type == "None" {
			c.ui.Output("No changes: the job is registered as it is in the file.\n")
		}
		c.ui.Output(diffText(plan.Diff, *f.verbose) + "\n")
	}
	c.ui.Output("Scheduler dry-run:\n" + dryRunText(plan, nodes) + "\n")
	if plan.Warnings != "" {
		c.jobWarnings(file, plan.Warnings)
		c.ui.Warn("")
	}
	c.preempted(f, plan.Annotations.PreemptedAllocs)
	c.ui.Output(fmt.Sprintf(`Job Modify Index: %d
To submit the job with version verification run:

wasmnode job run -check-index %d %s

When running the job with the check-index flag, the job will only be run if the
job modify index given matches the node's. If the index has changed, another user
has modified the job and the plan's results are potentially invalid.`,
		plan.JobModifyIndex, plan.JobModifyIndex, strings.Join(again, " ")))
}

// dryRunText is what the scheduler would do, in short.
func dryRunText(plan *nomad.JobPlanResponse, nodes []*nomad.Node) string {
	var lines []string
	if len(plan.FailedTGAllocs) == 0 {
		lines = append(lines, "- All tasks successfully allocated.")
	} else {
		lines = append(lines, "- WARNING: Failed to place all allocations.")
		for _, group := range slices.Sorted(maps.Keys(plan.FailedTGAllocs)) {
			metrics := plan.FailedTGAllocs[group]
			lines = append(lines, fmt.Sprintf("  Task Group %q (failed to place %d allocations):", group, metrics.CoalescedFailures+1))
			for _, reason := range placementReasons(metrics, nodes) {
				lines = append(lines, "    * "+reason)
			}
		}
	}
	if next := plan.NextPeriodicLaunch; !next.IsZero() {
		lines = append(lines, fmt.Sprintf("- If submitted now, next periodic launch would be at %s (%s from now).",
			next.Format(time.RFC3339), time.Until(next).Round(time.Second)))
	}
	return strings.Join(lines, "\n")
}

// preempted lists the allocations of other jobs that would make room.
func (c *jobPlanCommand) preempted(f *flags, allocs []*nomad.AllocationListStub) {
	if len(allocs) == 0 {
		return
	}
	c.ui.Output("Preemptions:\n")
	rows := [][]string{{"Alloc ID", "Job ID", "Task Group"}}
	for _, a := range allocs {
		rows = append(rows, []string{f.short(a.ID), a.JobID, a.TaskGroup})
	}
	c.table(rows)
	c.ui.Output("")
}
