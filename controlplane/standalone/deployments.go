package standalone

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
)

// putDeployment stores a deployment.
func (t *tx) putDeployment(d *structs.Deployment) {
	t.touched[TableDeployments] = t.at()
	d.ModifyIndex, d.ModifyTime = t.at(), t.now.UnixNano()
	if d.CreateIndex == 0 {
		d.CreateIndex, d.CreateTime = d.ModifyIndex, d.ModifyTime
	}
	t.deployments.put(d.ID, d)
}

// changeDeployment stores a changed copy of a deployment.
func (t *tx) changeDeployment(d *structs.Deployment, change func(*structs.Deployment)) *structs.Deployment {
	c := d.Copy()
	change(c)
	t.putDeployment(c)
	return c
}

// setDeploymentStatus ends a deployment, or has it wait or go on.
func (t *tx) setDeploymentStatus(d *structs.Deployment, status, description string) *structs.Deployment {
	return t.changeDeployment(d, func(d *structs.Deployment) { d.Status, d.StatusDescription = status, description })
}

// jobDeployments returns a job's deployments as the transaction sees them, newest first.
func (t *tx) jobDeployments(key jobKey) []*structs.Deployment {
	list := t.deploymentsByJob.in(key)
	sortDeployments(list)
	return list
}

func sortDeployments(list []*structs.Deployment) {
	slices.SortFunc(list, func(a, b *structs.Deployment) int {
		return cmp.Or(cmp.Compare(b.CreateIndex, a.CreateIndex), cmp.Compare(a.ID, b.ID))
	})
}

// deploymentOf returns the deployment of a job's current version; nil: it has none.
func (t *tx) deploymentOf(key jobKey) *structs.Deployment {
	j := t.jobs.get(key)
	if j == nil || *j.Stop {
		return nil
	}
	for _, d := range t.jobDeployments(key) {
		if d.JobSpecModifyIndex == j.versions[0] {
			return d
		}
	}
	return nil
}

// cancelDeployments ends the deployments of a job that are not its current version's.
func (t *tx) cancelDeployments(key jobKey) {
	j := t.jobs.get(key)
	for _, d := range t.jobDeployments(key) {
		switch {
		case !d.Active():
		case j == nil || *j.Stop:
			t.setDeploymentStatus(d, nomad.DeploymentStatusCancelled, structs.DeploymentJobStopped)
		case d.JobSpecModifyIndex != j.versions[0]:
			t.setDeploymentStatus(d, nomad.DeploymentStatusCancelled, structs.DeploymentSuperseded)
		}
	}
}

// beginDeployment stores a deployment that the scheduler begins.
func (t *tx) beginDeployment(d *structs.Deployment) {
	d.StatusDescription = d.Running()
	if d.Status == nomad.DeploymentStatusPaused {
		d.StatusDescription = structs.DeploymentLost
	}
	t.putDeployment(d)
}

// completeDeployment ends a deployment that has nothing left to do; its version is stable.
func (t *tx) completeDeployment(d *structs.Deployment) {
	t.setDeploymentStatus(d, nomad.DeploymentStatusSuccessful, structs.DeploymentSucceeded)
	j, sp := t.jobs.get(deployed(d)), t.specs.get(d.JobSpecModifyIndex)
	if j != nil && sp != nil {
		t.changeVersion(j, sp, func(j *nomad.Job) { j.Stable = new(true) })
	}
}

// count takes an allocation's change into its deployment, if that is going on.
func (t *tx) count(was, is *schedule.Alloc) {
	if was != nil && was.DeploymentID != is.DeploymentID {
		was = nil
	}
	d := t.deployments.get(is.DeploymentID)
	if d == nil || !d.Active() || d.TaskGroups[is.TaskGroup] == nil {
		return
	}
	before, after := partOf(was), partOf(is)
	if before == after {
		return
	}
	t.changeDeployment(d, func(d *structs.Deployment) {
		g := d.TaskGroups[is.TaskGroup]
		g.PlacedAllocs += after.placed - before.placed
		g.HealthyAllocs += after.healthy - before.healthy
		g.UnhealthyAllocs += after.unhealthy - before.unhealthy
		g.StandingAllocs += after.standing - before.standing
		if after.canary && before.placed == 0 {
			g.PlacedCanaries = append(g.PlacedCanaries, is.ID)
		}
		if g.RequireProgressBy.IsZero() || after.healthy > before.healthy {
			g.Progress(t.now)
		}
	})
}

// part is what an allocation counts for in its deployment.
type part struct {
	placed, healthy, unhealthy, standing int
	canary                               bool
}

func partOf(a *schedule.Alloc) (p part) {
	if a == nil {
		return p
	}
	p.placed = 1
	s := a.DeploymentStatus
	if s == nil {
		return p
	}
	p.canary = s.Canary
	switch {
	case s.Healthy == nil:
	case *s.Healthy:
		p.healthy = 1
		if !a.Terminal() {
			p.standing = 1
		}
	default:
		p.unhealthy = 1
	}
	return p
}

// watchDeployment does what follows for a deployment from the health of its allocations
// that has changed. It reports whether the job was evaluated.
func (t *tx) watchDeployment(key jobKey) bool {
	d := t.deploymentOf(key)
	if d == nil || d.Status != nomad.DeploymentStatusRunning {
		return false
	}
	t.proceed(d)
	return true
}

// proceed does what a running deployment's allocations have become ready for.
func (t *tx) proceed(d *structs.Deployment) *structs.Evaluation {
	for name, g := range d.TaskGroups {
		if g.UnhealthyAllocs > 0 && (g.ProgressDeadline == 0 || t.hopeless(d, name)) {
			e, _ := t.failDeployment(d, structs.DeploymentAllocsUnhealthy, g.AutoRevert)
			return e
		}
	}
	if t.readyForPromotion(d) {
		t.promote(d, nil)
	}
	return t.evaluateDeployment(d)
}

// hopeless reports whether an unhealthy allocation of a group of a deployment is not replaced
// by another: nothing that is waited for would make the group healthy.
func (t *tx) hopeless(d *structs.Deployment, group string) bool {
	for _, a := range t.jobAllocs(deployed(d)) {
		if a.DeploymentID == d.ID && a.TaskGroup == group && partOf(a).unhealthy > 0 && !a.ServerTerminal() && !schedule.Replaceable(a) {
			return true
		}
	}
	return false
}

// evaluateDeployment has the scheduler look at a deployment's job.
func (t *tx) evaluateDeployment(d *structs.Deployment) *structs.Evaluation {
	j := t.jobs.get(deployed(d))
	e := t.newEval(j.Job, triggerDeployment)
	t.evaluate(e, nil)
	return e
}

// readyForPromotion reports whether a deployment is to be promoted by itself: all its
// canaries are healthy.
func (t *tx) readyForPromotion(d *structs.Deployment) bool {
	if !d.RequiresPromotion() || !d.AutoPromotes() {
		return false
	}
	for _, g := range d.TaskGroups {
		if g.Canarying() && t.healthyCanaries(g) < g.DesiredCanaries {
			return false
		}
	}
	return true
}

// healthyCanaries counts a group's canaries that are there and healthy.
func (t *tx) healthyCanaries(g *structs.DeploymentGroup) (n int) {
	for _, id := range g.PlacedCanaries {
		if a := t.allocs.get(id); a != nil && partOf(a).standing > 0 {
			n++
		}
	}
	return n
}

// promote has canaries take the places that they are for. Without groups it is all.
func (t *tx) promote(d *structs.Deployment, groups []string) {
	d = t.changeDeployment(d, func(d *structs.Deployment) {
		for name, g := range d.TaskGroups {
			if g.Canarying() && (len(groups) == 0 || slices.Contains(groups, name)) {
				g.Promoted = true
				g.Progress(t.now)
			}
		}
		if d.Status == nomad.DeploymentStatusRunning {
			d.StatusDescription = d.Running()
		}
	})
	for _, g := range d.TaskGroups {
		if !g.Promoted {
			continue
		}
		for _, id := range g.PlacedCanaries {
			if a := t.allocs.get(id); a != nil && a.DeploymentStatus != nil && a.DeploymentStatus.Canary && !a.Terminal() {
				t.changeAlloc(a, true, func(a *structs.Allocation) { a.DeploymentStatus.Canary = false })
			}
		}
	}
}

// failDeployment ends a deployment as failed and has the job be as it is now or, when it is
// to revert, as its last stable version was. It returns the evaluation and the version that
// was gone back to; nil: to none.
func (t *tx) failDeployment(d *structs.Deployment, why string, revert bool) (*structs.Evaluation, *uint64) {
	key := deployed(d)
	j := t.jobs.get(key)
	var back *spec
	if revert {
		back = t.lastStable(j)
		why += " - " + t.describeRevert(j, back)
		if back != nil && t.isCurrent(j, back) {
			back = nil
		}
	}
	d = t.setDeploymentStatus(d, nomad.DeploymentStatusFailed, why)
	if back == nil {
		return t.evaluateDeployment(d), nil
	}
	again := *back.Job
	t.newVersion(j, &again, back.submission)
	return t.evaluateDeployment(d), back.Version
}

// lastStable returns the newest stable version of a job but for the current one; nil: none
// is known.
func (t *tx) lastStable(j *job) *spec {
	for _, index := range j.versions[1:] {
		if sp := t.specs.get(index); sp != nil && structs.Deref(sp.Stable) && !structs.Deref(sp.Stop) {
			return sp
		}
	}
	return nil
}

func (t *tx) isCurrent(j *job, version *spec) bool {
	return sameJob(t.version(j), version.Job)
}

// describeRevert has Nomad's words.
func (t *tx) describeRevert(j *job, back *spec) string {
	switch {
	case back == nil:
		return "no stable job version to auto revert to"
	case t.isCurrent(j, back):
		return fmt.Sprintf("not rolling back to stable job version %d as current job has same specification", *back.Version)
	}
	return fmt.Sprintf("rolling back to job version %d", *back.Version)
}

// failDue fails the deployments that have not come on in time.
func (t *tx) failDue() {
	for _, id := range t.cp.data.deadlines.due(t.now) {
		d := t.deployments.get(id)
		at, ok := deadline(d)
		if !ok || at.After(t.now) {
			continue
		}
		revert := false
		for _, g := range d.TaskGroups {
			revert = revert || g.AutoRevert && groupDeadline(g).Equal(at)
		}
		t.failDeployment(d, structs.DeploymentNoProgressDeadline, revert)
	}
}

// deadline is when a deployment fails if nothing of it becomes healthy; false: at no time.
func deadline(d *structs.Deployment) (at time.Time, ok bool) {
	if d == nil || d.Status != nomad.DeploymentStatusRunning {
		return at, false
	}
	for _, g := range d.TaskGroups {
		if by := groupDeadline(g); !by.IsZero() && (at.IsZero() || by.Before(at)) {
			at = by
		}
	}
	return at, !at.IsZero()
}

// groupDeadline is that of a group: none when it waits for a person, or has nothing to wait for.
func groupDeadline(g *structs.DeploymentGroup) time.Time {
	wanted := g.DesiredTotal
	if g.Canarying() {
		wanted = g.DesiredCanaries
	}
	if g.StandingAllocs >= wanted {
		return time.Time{}
	}
	return g.RequireProgressBy
}

// activeDeployment returns a deployment that a person wants to change. Its errors have
// Nomad's texts.
func (t *tx) activeDeployment(id, verb string) (*structs.Deployment, error) {
	d := t.deployments.get(id)
	switch {
	case d == nil:
		return nil, notFound("deployment not found")
	case !d.Active():
		return nil, invalid("can't %s terminal deployment", verb)
	}
	return d, nil
}

// endedDeployments are the ended ones, but for the last of each job that is there: it tells
// how far the job's version came.
func (t *tx) endedDeployments(keep Limits) (list []garbage) {
	t.deployments.all(func(id string, d *structs.Deployment) {
		key := deployed(d)
		if !d.Active() && (t.jobs.get(key) == nil || t.jobDeployments(key)[0] != d) {
			list = append(list, garbage{d.ModifyTime, keep.Deployments, func() {
				t.touched[TableDeployments] = t.at()
				t.deployments.delete(id)
			}})
		}
	})
	return list
}

// applyDeployment stores what was decided of a job's deployment, before the allocations
// that are part of it.
func (t *tx) applyDeployment(e *structs.Evaluation, res *schedule.Result) {
	if res.Deployment != nil {
		t.beginDeployment(res.Deployment)
	}
	d := t.deploymentOf(evaluated(e))
	if d == nil {
		return
	}
	e.DeploymentID = d.ID
	if res.Completed {
		t.completeDeployment(d)
	}
}
