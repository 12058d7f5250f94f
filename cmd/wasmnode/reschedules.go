package main

import (
	"fmt"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

// rescheduled are lines about how often an allocation's predecessors were replaced after
// they failed, and when it is to be.
func rescheduled(client *nomad.Client, a *nomad.Allocation) (lines [][2]string) {
	if t := a.RescheduleTracker; t != nil && len(t.Events) > 0 {
		if attempts, total := a.RescheduleInfo(time.Unix(0, a.ModifyTime)); total > 0 {
			lines = append(lines, [2]string{"Reschedule Attempts", fmt.Sprintf("%d/%d", attempts, total)})
		}
	}
	if a.FollowupEvalID == "" || a.NextAllocation != "" {
		return lines
	}
	// An evaluation that is gone is no reason to show nothing of the allocation.
	if e, _, err := client.Evaluations().Info(a.FollowupEvalID, nil); err == nil && isAhead(e) {
		lines = append(lines, [2]string{"Reschedule Eligibility", fromNow(e.WaitUntil)})
	}
	return lines
}

func isAhead(e *nomad.Evaluation) bool { return e.Status == "pending" && e.WaitUntil.After(time.Now()) }

func fromNow(at time.Time) string { return time.Until(at).Round(time.Second).String() + " from now" }

// reschedulesAhead prints when allocations of a job that failed are to be replaced.
func (c *jobStatusCommand) reschedulesAhead(f *flags, allocs []*nomad.AllocationListStub, evals []*nomad.Evaluation) {
	ahead := map[string]*nomad.Evaluation{}
	for _, e := range evals {
		if isAhead(e) {
			ahead[e.ID] = e
		}
	}
	var rows [][]string
	for _, a := range allocs {
		if e := ahead[a.FollowupEvalID]; e != nil && a.NextAllocation == "" {
			rows = append(rows, []string{a.TaskGroup, f.short(e.ID), fromNow(e.WaitUntil)})
		}
	}
	if len(rows) == 0 {
		return
	}
	slices.SortFunc(rows, slices.Compare)
	rows = slices.CompactFunc(rows, slices.Equal)
	c.ui.Output("\nFuture Rescheduling Attempts")
	c.table(append([][]string{{"Task Group", "Eval ID", "Eval Time"}}, rows...))
}
