package main

import (
	"fmt"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

// expectation is what the allocations of an evaluation are waited for.
type expectation struct {
	// groups are those whose allocations are to become healthy, with what that takes in
	// words. The allocations of other groups are to start.
	groups map[string]string
	since  int64 // when the evaluation was made: what was before is not its doing
}

// outcome is what has become of an allocation, as far as it is waited for.
type outcome int

const (
	undecided outcome = iota
	good
	bad
)

// Nomad's defaults of an update block.
const (
	defaultMinHealthy = 10 * time.Second
	defaultDeadline   = 5 * time.Minute
)

// healthOf is what an evaluation's allocations are waited for. Those of a service and a
// system job are to become healthy, unless a person is to decide on that.
func (m *monitor) healthOf(eval *nomad.Evaluation) (expectation, error) {
	e := expectation{groups: map[string]string{}, since: eval.CreateTime}
	if !m.health || eval.Type != nomad.JobTypeService && eval.Type != nomad.JobTypeSystem {
		return e, nil
	}
	job, _, err := m.client.Jobs().Info(eval.JobID, nil)
	if err != nil {
		return e, err
	}
	for _, g := range job.TaskGroups {
		least, most, by := defaultMinHealthy, defaultDeadline, ""
		if u := g.Update; u != nil {
			least, most, by = valueOr(u.MinHealthyTime, least), valueOr(u.HealthyDeadline, most), valueOr(u.HealthCheck, "")
		}
		switch {
		case by == "manual":
		case by == "task_states" || !hasChecks(g):
			e.groups[*g.Name] = fmt.Sprintf("its tasks are to run for %s, within %s", least, most)
		default:
			e.groups[*g.Name] = fmt.Sprintf("its tasks are to run, and its checks to succeed, for %s, within %s", least, most)
		}
	}
	return e, nil
}

func hasChecks(g *nomad.TaskGroup) bool {
	services := slices.Clone(g.Services)
	for _, t := range g.Tasks {
		services = append(services, t.Services...)
	}
	return slices.ContainsFunc(services, func(s *nomad.Service) bool { return len(s.Checks) > 0 })
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// of is the health of an allocation, if it was decided since the evaluation was made.
func (e expectation) of(s *nomad.AllocationListStub) (healthy, decided bool) {
	d := s.DeploymentStatus
	if _, watched := e.groups[s.TaskGroup]; !watched || d == nil || d.Healthy == nil || d.Timestamp.UnixNano() < e.since {
		return false, false
	}
	return *d.Healthy, true
}

// outcome is what has become of an allocation. One that is stopped on request is no
// concern of who waits for others, but one that was to become healthy did not.
func (e expectation) outcome(s *nomad.AllocationListStub) outcome {
	_, watched := e.groups[s.TaskGroup]
	healthy, decided := e.of(s)
	switch {
	case s.ClientStatus == "failed" || s.ClientStatus == "lost":
		return bad
	case !watched && s.DesiredStatus == "run" && s.ClientStatus == "pending":
		return undecided
	case !watched || decided && healthy:
		return good
	case decided, s.DesiredStatus != "run", s.ClientStatus == "complete":
		return bad
	}
	return undecided
}

// setbacks are task events that tell who waits for a service's health why it takes long.
var setbacks = []string{"Terminated", "Restarting", "Alloc Unhealthy", "Restart Signaled", "Driver"}

// worthTelling reports whether an event of a group's task is printed.
func (e expectation) worthTelling(group, event string) bool {
	_, watched := e.groups[group]
	return slices.Contains(failureEvents, event) || watched && slices.Contains(setbacks, event)
}
