package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

// pollWait is how long one blocking query of the monitor holds.
const pollWait = 10 * time.Second

// monitor follows an evaluation, and the allocations that it makes or changes.
type monitor struct {
	meta
	client  *nomad.Client
	flags   *flags
	health  bool            // services are waited for until they are healthy
	index   uint64          // at which the evaluation was made
	printed map[string]bool // keys of the lines that were printed
	every   time.Duration   // how long one look at a deployment holds; 0: lookEvery
	live    *live           // what is shown at the end of the terminal; nil: nothing
}

// follow returns the command's exit code.
func (m *monitor) follow(evalID string) int {
	m.printed = map[string]bool{}
	m.ui.Output(fmt.Sprintf("==> %s: Monitoring evaluation %q", now(), m.flags.short(evalID)))
	eval, err := m.evaluation(evalID)
	if err != nil {
		return m.fail(m.flags, err)
	}
	if eval.Status != "complete" {
		return m.fail(m.flags, fmt.Errorf("evaluation %q ended as %q: %s", m.flags.short(eval.ID), eval.Status, eval.StatusDescription))
	}
	m.index = eval.CreateIndex
	m.placementFailures(eval)
	if then, err := m.awaitPlugins(eval); err != nil {
		return m.fail(m.flags, err)
	} else if then != "" {
		return m.follow(then)
	}
	if eval.DeploymentID != "" && len(eval.FailedTGAllocs) == 0 {
		health, err := m.healthOf(eval)
		if err == nil && len(health.groups) > 0 {
			if err = m.deployment(eval.DeploymentID, health); err == nil {
				return 0
			}
		}
		if err != nil {
			return m.fail(m.flags, err)
		}
	}
	failed, err := m.allocations(eval)
	switch {
	case err != nil:
		return m.fail(m.flags, err)
	case len(eval.FailedTGAllocs) > 0:
		m.fail(m.flags, m.placementReason(eval))
		return notPlaced
	case len(failed) > 0:
		return m.fail(m.flags, m.failureReason(failed))
	}
	return 0
}

// evaluation waits for an evaluation's end.
func (m *monitor) evaluation(id string) (*nomad.Evaluation, error) {
	q := &nomad.QueryOptions{WaitTime: pollWait}
	for {
		eval, meta, err := m.client.Evaluations().Info(id, q)
		if err != nil {
			return nil, err
		}
		m.printOnce(fmt.Sprintf("    %s: Evaluation triggered by job %q", now(), eval.JobID), "triggered")
		switch eval.Status {
		case "complete", "failed", "canceled":
			if eval.DeploymentID != "" {
				m.printOnce(fmt.Sprintf("    %s: Evaluation within deployment: %q", now(), m.flags.short(eval.DeploymentID)), "within")
			}
			m.ui.Output(fmt.Sprintf("==> %s: Evaluation %q finished with status %q", now(), m.flags.short(id), eval.Status))
			return eval, nil
		}
		q.WaitIndex = meta.LastIndex
	}
}

// allocations follows the evaluation's allocations until each is what it is to be, or
// failed at it, and returns those that failed.
func (m *monitor) allocations(eval *nomad.Evaluation) ([]*nomad.AllocationListStub, error) {
	health, err := m.healthOf(eval)
	if err != nil {
		return nil, err
	}
	m.goLive()
	q := &nomad.QueryOptions{WaitTime: pollWait}
	for {
		stubs, meta, err := m.client.Evaluations().Allocations(eval.ID, q)
		if err != nil {
			return nil, err
		}
		if m.live != nil {
			m.live.set(strings.TrimPrefix(m.downloads(stubs), "\n\n"))
		}
		open := 0
		var failed []*nomad.AllocationListStub
		for _, s := range stubs {
			m.printAllocation(s, health)
			switch health.outcome(s) {
			case undecided:
				open++
			case bad:
				failed = append(failed, s)
			}
		}
		if open == 0 {
			m.printEnd(eval, health, len(stubs), len(failed))
			return failed, nil
		}
		m.printWaiting(stubs, health)
		q.WaitIndex = meta.LastIndex
	}
}

// goLive has what changes shown at the end of the terminal, where there is one.
func (m *monitor) goLive() {
	if l := liveOn(m.ui.out); l != nil {
		m.live, m.ui.out = l, l
	}
}

// maxDownloads bounds how many downloads are shown at a time.
const maxDownloads = 10

// downloads tells how far what tasks download has come, below what else is shown.
func (m *monitor) downloads(stubs []*nomad.AllocationListStub) string {
	var lines []string
	for _, s := range stubs {
		for _, task := range slices.Sorted(maps.Keys(s.TaskStates)) {
			events := s.TaskStates[task].Events
			if n := len(events); n > 0 && events[n-1].Type == nomad.TaskDownloadingArtifacts && s.ClientStatus == nomad.AllocClientStatusPending {
				text := strings.TrimPrefix(events[n-1].DisplayMessage, "Client is downloading artifacts: ") // the terminal is narrow
				lines = append(lines, fmt.Sprintf("Allocation %q: task %q: %s", m.flags.short(s.ID), task, text))
			}
		}
	}
	if more := len(lines) - maxDownloads; more > 0 {
		lines = append(lines[:maxDownloads], fmt.Sprintf("and %d more", more))
	}
	if len(lines) == 0 {
		return ""
	}
	return "\n\nDownloads\n" + strings.Join(lines, "\n")
}

// printAllocation prints what is new about an allocation.
func (m *monitor) printAllocation(s *nomad.AllocationListStub, health expectation) {
	id := m.flags.short(s.ID)
	how := "modified"
	if s.CreateIndex >= m.index {
		how = "created"
	}
	m.printOnce(fmt.Sprintf("    %s: Allocation %q %s: node %q, group %q", now(), id, how, m.flags.short(s.NodeID), s.TaskGroup), s.ID)
	for _, task := range slices.Sorted(maps.Keys(s.TaskStates)) {
		for _, e := range s.TaskStates[task].Events {
			if e.Time >= health.since && health.worthTelling(s.TaskGroup, e.Type) {
				m.printOnce(fmt.Sprintf("    %s: Allocation %q: task %q: %s: %s", now(), id, task, e.Type, e.DisplayMessage), fmt.Sprint(s.ID, task, e.Time, e.Type))
			}
		}
	}
	if s.ClientStatus != "pending" {
		text := strings.TrimSpace(s.ClientStatus + " " + parenthesised(s.ClientDescription))
		m.printOnce(fmt.Sprintf("    %s: Allocation %q is %s", now(), id, text), s.ID+s.ClientStatus)
	}
	if healthy, decided := health.of(s); decided && s.ClientStatus != "failed" {
		word := "healthy"
		if !healthy {
			word = "unhealthy"
		}
		m.printOnce(fmt.Sprintf("    %s: Allocation %q is %s", now(), id, word), s.ID+word)
	}
}

// printWaiting says, once, what a service's allocations are waited for.
func (m *monitor) printWaiting(stubs []*nomad.AllocationListStub, health expectation) {
	for _, s := range stubs {
		if bounds, watched := health.groups[s.TaskGroup]; watched && health.outcome(s) == undecided {
			m.printOnce(fmt.Sprintf("    %s: Waiting until group %q is healthy: %s", now(), s.TaskGroup, bounds), "group "+s.TaskGroup)
		}
	}
}

// printEnd prints the last line of what went well.
func (m *monitor) printEnd(eval *nomad.Evaluation, health expectation, all, failed int) {
	if len(health.groups) > 0 && all > 0 && failed == 0 {
		m.ui.Output(fmt.Sprintf("==> %s: Job %q is healthy", now(), eval.JobID))
	}
}

func parenthesised(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}

// printOnce prints a line unless one with the same key was printed before.
func (m *monitor) printOnce(line, key string) {
	if !m.printed[key] {
		m.printed[key] = true
		m.ui.Output(line)
	}
}

func now() string { return time.Now().Format(time.RFC3339) }
