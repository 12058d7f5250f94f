package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

// lookEvery is how long one look at a deployment holds: what changes of it alone, and not
// of its allocations, is seen that much later.
const lookEvery = time.Second

// deployment follows an evaluation's deployment to its end, and the way back where it has
// one. The error is why the job does not work as it was sent.
func (m *monitor) deployment(id string, health expectation) error {
	d, _, err := m.client.Deployments().Info(id, nil)
	if err != nil {
		return err
	}
	health.since = d.CreateTime
	return m.followToEnd(id, health)
}

// followToEnd prints what becomes of a deployment. On a terminal how far it has come is
// shown at the end of it, and a line each else.
func (m *monitor) followToEnd(id string, health expectation) error {
	m.ui.Output(fmt.Sprintf("==> %s: Monitoring deployment %q", now(), m.flags.short(id)))
	m.goLive()
	q := &nomad.QueryOptions{WaitTime: cmp.Or(m.every, lookEvery)}
	for {
		stubs, meta, err := m.client.Deployments().Allocations(id, q)
		if err != nil {
			return err
		}
		d, _, err := m.client.Deployments().Info(id, nil)
		if err != nil {
			return err
		}
		if d.Status == nomad.DeploymentStatusFailed || d.Status == nomad.DeploymentStatusSuccessful { // its allocations may have told something since they were read
			if stubs, meta, err = m.client.Deployments().Allocations(id, nil); err != nil {
				return err
			}
		}
		m.progress(d, stubs)
		for _, s := range stubs {
			m.printAllocation(s, health)
		}
		if done, err := m.ended(d, stubs, health); done {
			return err
		}
		m.printWaiting(stubs, health)
		q.WaitIndex = meta.LastIndex
	}
}

// progress shows how far a deployment has come, if that has changed.
func (m *monitor) progress(d *nomad.Deployment, stubs []*nomad.AllocationListStub) {
	if m.live != nil {
		m.live.set(deploymentText(m.flags, d, false) + m.downloads(stubs))
		return
	}
	text := fmt.Sprintf("Deployment %q is %s", m.flags.short(d.ID), d.Status)
	for _, name := range slices.Sorted(maps.Keys(d.TaskGroups)) {
		g := d.TaskGroups[name]
		text += fmt.Sprintf(", group %q: %d wanted, %d placed, %d healthy, %d unhealthy",
			name, max(g.DesiredTotal, g.DesiredCanaries), g.PlacedAllocs, g.HealthyAllocs, g.UnhealthyAllocs)
	}
	if why := strings.TrimPrefix(d.StatusDescription, "Deployment is "); why != d.Status {
		text += " (" + d.StatusDescription + ")"
	}
	m.printOnce(fmt.Sprintf("    %s: %s", now(), text), text)
}

// ended reports whether a deployment needs no more following, and why that is bad.
func (m *monitor) ended(d *nomad.Deployment, stubs []*nomad.AllocationListStub, health expectation) (bool, error) {
	switch d.Status {
	case nomad.DeploymentStatusSuccessful:
		m.ui.Output(fmt.Sprintf("==> %s: Job %q is healthy", now(), d.JobID))
		return true, nil
	case nomad.DeploymentStatusFailed, nomad.DeploymentStatusCancelled:
		m.followBack(d)
		return true, m.deploymentReason(d, stubs, health)
	case nomad.DeploymentStatusRunning:
		if stuck := stuckIn(d, stubs, health); len(stuck) > 0 {
			return true, m.failureReason(stuck)
		}
	}
	return false, nil
}

// stuckIn are the allocations that are bad once no other one is undecided: the deployment
// waits for its deadline, but what takes their places later will hardly do better. Where
// the deployment goes back by itself, only those count that nothing replaces.
func stuckIn(d *nomad.Deployment, stubs []*nomad.AllocationListStub, health expectation) (stuck []*nomad.AllocationListStub) {
	for _, s := range stubs {
		if s.DesiredStatus != "run" || s.NextAllocation != "" {
			continue
		}
		g := d.TaskGroups[s.TaskGroup]
		switch health.outcome(s) {
		case undecided:
			return nil
		case bad:
			if s.FollowupEvalID == "" || g == nil || !g.AutoRevert {
				stuck = append(stuck, s)
			}
		}
	}
	return stuck
}

// followBack follows the deployment that takes a failed one back, if there is one.
func (m *monitor) followBack(d *nomad.Deployment) {
	latest, _, err := m.client.Jobs().LatestDeployment(d.JobID, nil)
	if err != nil || latest == nil || d.Status != nomad.DeploymentStatusFailed || latest.CreateIndex <= d.CreateIndex ||
		!strings.Contains(d.StatusDescription, "rolling back to job version") {
		return
	}
	m.ui.Output(fmt.Sprintf("==> %s: %s", now(), d.StatusDescription))
	if err := m.followToEnd(latest.ID, expectation{groups: map[string]string{}, since: latest.CreateTime}); err != nil {
		m.fail(m.flags, err)
	}
}

// deploymentReason describes why a deployment was no success.
func (m *monitor) deploymentReason(d *nomad.Deployment, stubs []*nomad.AllocationListStub, health expectation) error {
	text := fmt.Sprintf("deployment %q is %s: %s", m.flags.short(d.ID), d.Status, d.StatusDescription)
	var failed []*nomad.AllocationListStub
	for _, s := range stubs {
		if healthy, decided := health.of(s); decided && !healthy {
			failed = append(failed, s)
		}
	}
	if len(failed) > 0 && d.Status == nomad.DeploymentStatusFailed {
		text += ": " + m.failureReason(failed).Error()
	}
	return errors.New(text)
}
