package main

import (
	"cmp"
	"slices"
	"strconv"

	nomad "github.com/hashicorp/nomad/api"
)

type jobScalingEventsCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobScalingEventsCommand) Synopsis() string { return "List how a job's groups were scaled" }

// Help implements [subcommand].
func (*jobScalingEventsCommand) Help() string {
	return `Usage: wasmnode job scaling-events [options] JOB

  Lists the last 20 scalings of each group of a job, the newest first. With -verbose,
  also what is said of each.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *jobScalingEventsCommand) Run(args []string) int {
	f := c.flags("job scaling-events")
	client, job := c.onJob(f, args, 1, 1, c.Help())
	if job == nil {
		return 1
	}
	status, _, err := client.Jobs().ScaleStatus(*job.ID, nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(status)
	}
	events := eventsOf(status)
	if len(events) == 0 {
		c.ui.Output("No events found")
		return 0
	}
	header := []string{"Task Group", "Count", "PrevCount"}
	if *f.verbose {
		header = append(header, "Error", "Message", "Eval ID")
	}
	rows := [][]string{append(header, "Date")}
	for _, e := range events {
		rows = append(rows, e.row(f))
	}
	c.table(rows)
	return 0
}

// scalingEvent is a scaling of a group.
type scalingEvent struct {
	group string
	nomad.ScalingEvent
}

// eventsOf are the scalings of all groups, the newest first.
func eventsOf(status *nomad.JobScaleStatusResponse) (events []scalingEvent) {
	for group, s := range status.TaskGroups {
		for _, e := range s.Events {
			events = append(events, scalingEvent{group, e})
		}
	}
	slices.SortFunc(events, func(a, b scalingEvent) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(b.CreateIndex, a.CreateIndex))
	})
	return events
}

func (e scalingEvent) row(f *flags) []string {
	count := ""
	if e.Count != nil {
		count = strconv.FormatInt(*e.Count, 10)
	}
	row := []string{e.group, count, strconv.FormatInt(e.PreviousCount, 10)}
	if *f.verbose {
		eval := ""
		if e.EvalID != nil {
			eval = *e.EvalID
		}
		row = append(row, strconv.FormatBool(e.Error), e.Message, eval)
	}
	return append(row, stamp(int64(e.Time)))
}
