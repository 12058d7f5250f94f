package standalone

import (
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
)

// Deployments returns all deployments, in no order.
func (cp *ControlPlane) Deployments() []*structs.Deployment {
	return read(cp, func(t *tables) []*structs.Deployment {
		list := make([]*structs.Deployment, 0, len(t.deployments))
		for _, d := range t.deployments {
			list = append(list, d)
		}
		return list
	})
}

// Deployment returns a deployment by its full ID.
func (cp *ControlPlane) Deployment(id string) *structs.Deployment {
	return read(cp, func(t *tables) *structs.Deployment { return t.deployments[id] })
}

// JobDeployments returns a job's deployments, newest first; also those of a job that was
// purged, as long as they are kept.
func (cp *ControlPlane) JobDeployments(namespace, id string) []*structs.Deployment {
	return read(cp, func(t *tables) (list []*structs.Deployment) {
		for _, d := range t.deploymentsByJob[jobKey{namespace, id}] {
			list = append(list, d)
		}
		sortDeployments(list)
		return list
	})
}

// changed is what a person's change of a deployment has led to.
func (t *tx) changed(d *structs.Deployment, e *structs.Evaluation, reverted *uint64) *structs.DeploymentChange {
	c := &structs.DeploymentChange{ModifyIndex: t.deployments.get(d.ID).ModifyIndex, RevertedJobVersion: reverted}
	if e != nil {
		c.EvalID, c.EvalCreateIndex = e.ID, e.CreateIndex
	}
	return c
}

// changeActive does a person's change of a deployment that has not ended. An unknown one is
// errdefs.NotFound, and one that has ended errdefs.InvalidArgument with Nomad's text, in
// which verb is what cannot be done.
func (cp *ControlPlane) changeActive(id, verb string, change func(*tx, *structs.Deployment) (*structs.DeploymentChange, error)) (out *structs.DeploymentChange, err error) {
	err = cp.write(func(t *tx) error {
		d, err := t.activeDeployment(id, verb)
		if err != nil {
			return err
		}
		out, err = change(t, d)
		return err
	})
	return out, err
}

// PromoteDeployment has the healthy canaries of some groups take the places that they are
// for, and the rest of the update begin; of no groups: of all.
func (cp *ControlPlane) PromoteDeployment(id string, groups []string) (*structs.DeploymentChange, error) {
	return cp.changeActive(id, "promote", func(t *tx, d *structs.Deployment) (*structs.DeploymentChange, error) {
		promotable := 0
		for name, g := range d.TaskGroups {
			if !g.Canarying() || len(groups) > 0 && !slices.Contains(groups, name) {
				continue
			}
			promotable++
			if n := t.healthyCanaries(g); n < g.DesiredCanaries {
				return nil, invalid("Task group %q has %d/%d healthy allocations", name, n, g.DesiredCanaries)
			}
		}
		if promotable == 0 {
			return nil, invalid("no canaries to promote")
		}
		t.promote(d, groups)
		return t.changed(d, t.evaluateDeployment(d), nil), nil
	})
}

// PauseDeployment has a deployment begin nothing new, or go on. What it began goes on.
func (cp *ControlPlane) PauseDeployment(id string, pause bool) (*structs.DeploymentChange, error) {
	verb := "resume"
	if pause {
		verb = "pause"
	}
	return cp.changeActive(id, verb, func(t *tx, d *structs.Deployment) (*structs.DeploymentChange, error) {
		if pause {
			t.setDeploymentStatus(d, nomad.DeploymentStatusPaused, structs.DeploymentIsPaused)
			return t.changed(d, nil, nil), nil
		}
		d = t.changeDeployment(d, func(d *structs.Deployment) {
			d.Status, d.StatusDescription = nomad.DeploymentStatusRunning, d.Running()
			for _, g := range d.TaskGroups {
				if !g.RequireProgressBy.IsZero() {
					g.Progress(t.now) // the pause does not count
				}
			}
		})
		return t.changed(d, t.proceed(d), nil), nil
	})
}

// FailDeployment ends a deployment as failed. Where a group's update says so the job goes
// back to its last stable version.
func (cp *ControlPlane) FailDeployment(id string) (*structs.DeploymentChange, error) {
	return cp.changeActive(id, "fail", func(t *tx, d *structs.Deployment) (*structs.DeploymentChange, error) {
		e, reverted := t.failDeployment(d, structs.DeploymentMarkedFailed, d.AutoReverts())
		return t.changed(d, e, reverted), nil
	})
}

// UnblockDeployment is for deployments that wait for other regions. There are none.
func (cp *ControlPlane) UnblockDeployment(id string) (*structs.DeploymentChange, error) {
	return cp.changeActive(id, "unblock", func(_ *tx, d *structs.Deployment) (*structs.DeploymentChange, error) {
		return nil, invalid("can't unblock %s deployment", d.Status)
	})
}

// SetAllocationHealth says which allocations of a deployment are healthy and which are not:
// what a person decides where the update's health_check is "manual". One that is not
// healthy fails the deployment.
func (cp *ControlPlane) SetAllocationHealth(id string, healthy, unhealthy []string) (*structs.DeploymentChange, error) {
	return cp.changeActive(id, "set health of allocations for a", func(t *tx, d *structs.Deployment) (*structs.DeploymentChange, error) {
		if len(healthy)+len(unhealthy) == 0 {
			return nil, invalid("must specify at least one healthy/unhealthy allocation ID")
		}
		for _, id := range slices.Concat(healthy, unhealthy) {
			switch a := t.allocs.get(id); {
			case a == nil:
				return nil, invalid("unknown alloc %q", id)
			case a.DeploymentID != d.ID:
				return nil, invalid("alloc %q is not part of deployment %q", id, d.ID)
			}
		}
		for _, id := range healthy {
			t.setHealth(t.allocs.get(id), true)
		}
		for _, id := range unhealthy {
			t.setHealth(t.allocs.get(id), false)
		}
		d = t.deployments.get(d.ID)
		if len(unhealthy) > 0 {
			revert := false
			for _, id := range unhealthy {
				g := d.TaskGroups[t.allocs.get(id).TaskGroup]
				revert = revert || g != nil && g.AutoRevert
			}
			e, reverted := t.failDeployment(d, structs.DeploymentAllocsUnhealthy, revert)
			return t.changed(d, e, reverted), nil
		}
		if d.Status != nomad.DeploymentStatusRunning {
			return t.changed(d, nil, nil), nil
		}
		return t.changed(d, t.proceed(d), nil), nil
	})
}

// setHealth sets an allocation's health. Its node learns of it, and does not decide itself.
func (t *tx) setHealth(a *schedule.Alloc, healthy bool) {
	t.changeAlloc(a, true, func(a *structs.Allocation) {
		s := &structs.DeploymentStatus{Healthy: &healthy, Timestamp: t.now.UTC(), DeploymentID: a.DeploymentID}
		if a.DeploymentStatus != nil {
			s.Canary = a.DeploymentStatus.Canary
		}
		a.DeploymentStatus = s
	})
}
