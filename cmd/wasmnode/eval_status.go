package main

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"

	nomad "github.com/hashicorp/nomad/api"
)

type evalStatusCommand struct{ meta }

// Synopsis implements [subcommand].
func (*evalStatusCommand) Synopsis() string {
	return "Show an evaluation: what was placed, and what was not and why"
}

// Help implements [subcommand].
func (*evalStatusCommand) Help() string {
	return `Usage: wasmnode eval status [options] [EVAL]

  Lists the evaluations, or shows one and why it could not place what it could not.

Options:

  -monitor   Follow it as job run does.` + commonOptions
}

// Run implements [subcommand].
func (c *evalStatusCommand) Run(args []string) int {
	f := c.flags("eval status")
	follow := f.Bool("monitor", false, "")
	client := c.connect(f, args, 0, 1, c.Help())
	if client == nil {
		return 1
	}
	if f.NArg() == 0 {
		return c.list(f, client)
	}
	eval, err := findEvaluation(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	switch {
	case *f.json && *follow:
		return c.fail(f, errors.New("-monitor is for people: without -json and -t"))
	case *f.json:
		return c.printJSON(eval)
	case *follow:
		return (&monitor{meta: c.meta, client: client, flags: f, health: true}).follow(eval.ID)
	}
	c.pairs([][2]string{
		{"ID", f.short(eval.ID)},
		{"Create Time", f.when(eval.CreateTime)},
		{"Modify Time", f.when(eval.ModifyTime)},
		{"Status", eval.Status},
		{"Status Description", cmp.Or(eval.StatusDescription, eval.Status)},
		{"Type", eval.Type},
		{"TriggeredBy", eval.TriggeredBy},
		{"Job ID", eval.JobID},
		{"Namespace", eval.Namespace},
		{"Priority", strconv.Itoa(eval.Priority)},
		{"Placement Failures", strconv.FormatBool(len(eval.FailedTGAllocs) > 0)},
		{"Previous Eval", f.short(eval.PreviousEval)},
		{"Next Eval", f.short(eval.NextEval)},
		{"Blocked Eval", f.short(eval.BlockedEval)},
	})
	c.annotations(f, eval)
	if err := c.placed(f, client, eval); err != nil {
		return c.fail(f, err)
	}
	(&monitor{meta: c.meta, client: client, flags: f}).placementFailures(eval)
	return 0
}

// annotations prints how many allocations were to be made, changed and ended.
func (c *evalStatusCommand) annotations(f *flags, eval *nomad.Evaluation) {
	if eval.PlanAnnotations == nil || len(eval.PlanAnnotations.DesiredTGUpdates) == 0 {
		return
	}
	c.ui.Output("\nPlan Annotations")
	rows := [][]string{{"Task Group", "Ignore", "Place", "Stop", "InPlace", "Destructive", "Migrate", "Canary", "Preemptions"}}
	if *f.verbose {
		rows[0] = append(rows[0], "Reschedule Now", "Reschedule Later", "Disconnect", "Reconnect")
	}
	for _, group := range slices.Sorted(maps.Keys(eval.PlanAnnotations.DesiredTGUpdates)) {
		u := eval.PlanAnnotations.DesiredTGUpdates[group]
		row := []string{group}
		all := []uint64{
			u.Ignore, u.Place, u.Stop, u.InPlaceUpdate, u.DestructiveUpdate, u.Migrate, u.Canary, u.Preemptions,
			u.RescheduleNow, u.RescheduleLater, u.Disconnect, u.Reconnect,
		}
		for _, n := range all[:len(rows[0])-1] {
			row = append(row, strconv.FormatUint(n, 10))
		}
		rows = append(rows, row)
	}
	c.table(rows)
}

// placed prints the allocations that were made or changed.
func (c *evalStatusCommand) placed(f *flags, client *nomad.Client, eval *nomad.Evaluation) error {
	allocs, _, err := client.Evaluations().Allocations(eval.ID, nil)
	if err == nil && len(allocs) > 0 {
		c.ui.Output("\nPlaced Allocations")
		allocationTable(c.meta, f, allocs)
	}
	return err
}

func (c *evalStatusCommand) list(f *flags, client *nomad.Client) int {
	evals, _, err := client.Evaluations().List(nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(evals)
	}
	c.evalTable(f, evals)
	return 0
}
