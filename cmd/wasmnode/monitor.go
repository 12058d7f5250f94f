package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
)

// pollWait is how long one blocking query of the monitor holds.
const pollWait = 10 * time.Second

// failureEvents are task events that tell why a task does not start.
var failureEvents = []string{"Driver Failure", "Failed Validation", "Setup Failure", "Task hook failed", "Failed Artifact Download", "Not Restarting"}

// monitor follows an evaluation, and the allocations that it makes.
type monitor struct {
	meta
	client *api.Client
	flags  *flags
	told   map[string]bool // what was said already
}

// follow returns the command's exit code.
func (m *monitor) follow(evalID string) int {
	m.told = map[string]bool{}
	m.ui.Output(fmt.Sprintf("==> %s: Monitoring evaluation %q", now(), m.flags.short(evalID)))
	eval, err := m.evaluation(evalID)
	if err != nil {
		return m.fail(m.flags, err)
	}
	if eval.Status != "complete" {
		m.ui.Error(fmt.Sprintf("Evaluation %q ended as %q: %s", m.flags.short(eval.ID), eval.Status, eval.StatusDescription))
		return 1
	}
	failed := m.placementFailures(eval)
	code, err := m.allocations(evalID)
	if err != nil {
		return m.fail(m.flags, err)
	}
	if failed {
		return 2
	}
	return code
}

// evaluation waits for an evaluation's end.
func (m *monitor) evaluation(id string) (*api.Evaluation, error) {
	q := &api.QueryOptions{WaitTime: pollWait}
	for {
		eval, meta, err := m.client.Evaluations().Info(id, q)
		if err != nil {
			return nil, err
		}
		m.say(fmt.Sprintf("    %s: Evaluation triggered by job %q", now(), eval.JobID), "triggered")
		switch eval.Status {
		case "complete", "failed", "canceled":
			m.say(fmt.Sprintf("    %s: Evaluation status changed: %q", now(), eval.Status), eval.Status)
			m.ui.Output(fmt.Sprintf("==> %s: Evaluation %q finished with status %q", now(), m.flags.short(id), eval.Status))
			return eval, nil
		}
		q.WaitIndex = meta.LastIndex
	}
}

// placementFailures says why groups could not be placed.
func (m *monitor) placementFailures(eval *api.Evaluation) bool {
	if len(eval.FailedTGAllocs) == 0 {
		return false
	}
	m.ui.Output(fmt.Sprintf("==> %s: Not all of job %q could be placed:", now(), eval.JobID))
	for _, group := range slices.Sorted(maps.Keys(eval.FailedTGAllocs)) {
		metrics := eval.FailedTGAllocs[group]
		n := metrics.CoalescedFailures + 1
		plural := "s"
		if n == 1 {
			plural = ""
		}
		m.ui.Output(fmt.Sprintf("    Task Group %q (failed to place %d allocation%s):", group, n, plural))
		for _, line := range whyNot(metrics) {
			m.ui.Output("      * " + line)
		}
	}
	if eval.BlockedEval != "" {
		m.ui.Output(fmt.Sprintf("    Evaluation %q waits for the node to change, and places the rest then", m.flags.short(eval.BlockedEval)))
	}
	return true
}

// whyNot renders placement metrics with Nomad's words.
func whyNot(m *api.AllocationMetric) []string {
	var lines []string
	if m.NodesEvaluated == 0 {
		lines = append(lines, "No nodes were eligible for evaluation")
	}
	for dc, n := range m.NodesAvailable {
		if n == 0 {
			lines = append(lines, fmt.Sprintf("No nodes are available in datacenter %q", dc))
		}
	}
	counted := func(format string, counts map[string]int) {
		for _, key := range slices.Sorted(maps.Keys(counts)) {
			lines = append(lines, fmt.Sprintf(format, key, counts[key]))
		}
	}
	counted("Class %q: %d nodes excluded by filter", m.ClassFiltered)
	counted("Constraint %q: %d nodes excluded by filter", m.ConstraintFiltered)
	if m.NodesExhausted > 0 {
		lines = append(lines, fmt.Sprintf("Resources exhausted on %d nodes", m.NodesExhausted))
	}
	counted("Dimension %q exhausted on %d nodes", m.DimensionExhausted)
	return lines
}

// allocations follows the evaluation's allocations until none is pending.
func (m *monitor) allocations(evalID string) (int, error) {
	q := &api.QueryOptions{WaitTime: pollWait}
	for {
		stubs, meta, err := m.client.Evaluations().Allocations(evalID, q)
		if err != nil {
			return 1, err
		}
		pending, failed := 0, 0
		for _, s := range stubs {
			m.tell(s)
			switch {
			case s.DesiredStatus != "run":
			case s.ClientStatus == "pending":
				pending++
			case s.ClientStatus == "failed" || s.ClientStatus == "lost":
				failed++
			}
		}
		if pending == 0 {
			return min(failed, 1), nil
		}
		q.WaitIndex = meta.LastIndex
	}
}

// tell says what is new about an allocation.
func (m *monitor) tell(s *api.AllocationListStub) {
	id := m.flags.short(s.ID)
	m.say(fmt.Sprintf("    %s: Allocation %q created: node %q, group %q", now(), id, m.flags.short(s.NodeID), s.TaskGroup), s.ID)
	for _, task := range slices.Sorted(maps.Keys(s.TaskStates)) {
		for _, e := range s.TaskStates[task].Events {
			if slices.Contains(failureEvents, e.Type) {
				m.say(fmt.Sprintf("    %s: Allocation %q: task %q: %s: %s", now(), id, task, e.Type, e.DisplayMessage), fmt.Sprint(s.ID, task, e.Time))
			}
		}
	}
	if s.ClientStatus != "pending" {
		text := strings.TrimSpace(s.ClientStatus + " " + parenthesised(s.ClientDescription))
		m.say(fmt.Sprintf("    %s: Allocation %q is %s", now(), id, text), s.ID+s.ClientStatus)
	}
}

func parenthesised(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}

// say prints a line unless the same thing was said before.
func (m *monitor) say(line, key string) {
	if !m.told[key] {
		m.told[key] = true
		m.ui.Output(line)
	}
}

func now() string { return time.Now().Format(time.RFC3339) }
