package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

// notPlaced is the exit code of a job that was registered and not placed completely.
const notPlaced = 2

// failureEvents are task events that give the reason why a task does not start.
var failureEvents = []string{"Driver Failure", "Failed Validation", "Setup Failure", "Task hook failed", "Failed Artifact Download", "Not Restarting"}

// placementFailures prints why groups could not be placed.
func (m *monitor) placementFailures(eval *nomad.Evaluation) {
	if len(eval.FailedTGAllocs) == 0 {
		return
	}
	nodes := nodesThatTake(m.client)
	m.ui.Output(fmt.Sprintf("==> %s: Not all of job %q could be placed:", now(), eval.JobID))
	for _, group := range slices.Sorted(maps.Keys(eval.FailedTGAllocs)) {
		metrics := eval.FailedTGAllocs[group]
		n := metrics.CoalescedFailures + 1
		plural := "s"
		if n == 1 {
			plural = ""
		}
		m.ui.Output(fmt.Sprintf("    Task Group %q (failed to place %d allocation%s):", group, n, plural))
		for _, line := range placementReasons(metrics, nodes) {
			m.ui.Output("      * " + line)
		}
	}
	if eval.BlockedEval != "" {
		m.ui.Output(fmt.Sprintf("    Evaluation %q waits for the node to change, and places the rest then", m.flags.short(eval.BlockedEval)))
	}
}

// placementReasons renders placement metrics with Nomad's words, and with what the nodes
// have of what is missing.
func placementReasons(m *nomad.AllocationMetric, nodes []*nomad.Node) []string {
	var lines []string
	if m.NodesEvaluated == 0 {
		lines = append(lines, "No nodes were eligible for evaluation"+places(nodes))
	}
	for dc, n := range m.NodesAvailable {
		if n == 0 {
			lines = append(lines, fmt.Sprintf("No nodes are available in datacenter %q", dc))
		}
	}
	counted := func(format string, counts map[string]int, has func(nodes []*nomad.Node, key string) string) {
		for _, key := range slices.Sorted(maps.Keys(counts)) {
			lines = append(lines, fmt.Sprintf(format, key, counts[key])+has(nodes, key))
		}
	}
	counted("Class %q: %d nodes excluded by filter", m.ClassFiltered, func([]*nomad.Node, string) string { return "" })
	counted("Constraint %q: %d nodes excluded by filter", m.ConstraintFiltered, hasForConstraint)
	if m.NodesExhausted > 0 {
		lines = append(lines, fmt.Sprintf("Resources exhausted on %d nodes", m.NodesExhausted))
	}
	counted("Dimension %q exhausted on %d nodes", m.DimensionExhausted, hasOfDimension)
	return lines
}

// placementReason is the content of placementFailures as one line, with the drivers by name
// that the node lacks.
func (m *monitor) placementReason(eval *nomad.Evaluation) error {
	var why []string
	for _, group := range slices.Sorted(maps.Keys(eval.FailedTGAllocs)) {
		reasons, err := m.lacking(eval.JobID, group)
		if err != nil {
			return err
		}
		if len(reasons) == 0 {
			reasons = placementReasons(eval.FailedTGAllocs[group], nodesThatTake(m.client))
		}
		why = append(why, fmt.Sprintf("group %q: %s", group, strings.Join(reasons, ", ")))
	}
	return fmt.Errorf("job %q is registered, but not all of it could be placed: %s", eval.JobID, strings.Join(why, "; "))
}

// lacking returns which drivers a group's tasks need and the node lacks.
func (m *monitor) lacking(jobID, group string) ([]string, error) {
	job, _, err := m.client.Jobs().Info(jobID, nil)
	if err != nil {
		return nil, err
	}
	node, err := findNode(m.client, "")
	if err != nil {
		return nil, err
	}
	var lacking []string
	for _, g := range job.TaskGroups {
		if *g.Name != group {
			continue
		}
		for _, t := range g.Tasks {
			if d := node.Drivers[t.Driver]; d == nil || !d.Healthy {
				lacking = append(lacking, fmt.Sprintf("task %q needs driver %q, which no healthy plugin provides (see wasmnode plugin status)", t.Name, t.Driver))
			}
		}
	}
	return lacking, nil
}

// failureReason describes why the first of some allocations failed, and where to read more.
func (m *monitor) failureReason(failed []*nomad.AllocationListStub) error {
	first := failed[0]
	id := m.flags.short(first.ID)
	why, status := first.ClientDescription, first.ClientStatus
	if status != "failed" && status != "lost" {
		status, why = "not healthy", m.unhealthyReason(first)
	}
	for _, name := range slices.Sorted(maps.Keys(first.TaskStates)) {
		if e := cause(first.TaskStates[name]); e != nil {
			why = fmt.Sprintf("task %q: %s: %s", name, e.Type, e.DisplayMessage)
			break
		}
	}
	more := ""
	if len(failed) > 1 {
		more = fmt.Sprintf("%d allocations failed, the first: ", len(failed))
	}
	return errors.New(more + fmt.Sprintf("allocation %q is %s: %s (see wasmnode alloc status %s)", id, status, why, id))
}

// unhealthyReason describes why an allocation did not become healthy: what its last event
// of that says, and which of its checks do not succeed.
func (m *monitor) unhealthyReason(s *nomad.AllocationListStub) string {
	if s.DesiredStatus != "run" {
		return "it was stopped before: " + s.DesiredDescription
	}
	why := "it did not become so in time"
	for _, name := range slices.Sorted(maps.Keys(s.TaskStates)) {
		for _, e := range s.TaskStates[name].Events {
			if e.Type == "Alloc Unhealthy" {
				why = fmt.Sprintf("task %q: %s", name, e.DisplayMessage)
			}
		}
	}
	checks, err := m.client.Allocations().Checks(s.ID, nil)
	if err != nil {
		return why // it is known without them, if not as well
	}
	for _, id := range slices.Sorted(maps.Keys(checks)) {
		if c := checks[id]; c.Status != "success" {
			why += fmt.Sprintf("; check %q of service %q: %s", c.Check, c.Service, strings.TrimSpace(c.Status+" "+parenthesised(strings.TrimSpace(c.Output))))
		}
	}
	return why
}

// cause is the last event with the reason why a task failed; nil: none does.
func cause(s *nomad.TaskState) *nomad.TaskEvent {
	if !s.Failed {
		return nil
	}
	for _, e := range slices.Backward(s.Events) {
		if e.Type == "Terminated" || slices.Contains(failureEvents, e.Type) && e.Type != "Not Restarting" {
			return e
		}
	}
	return nil
}
