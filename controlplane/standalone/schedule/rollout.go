package schedule

import (
	"cmp"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// rollout is how a counted group comes to the job's current version. Which of its places
// (the indexes below its count) are held by whom is found first; then what is done about
// it, which depends on the group's deployment.
type rollout struct {
	*scheduler
	g *nomad.TaskGroup
	// holders are who has a place, by index: allocations that are live, or that ended and
	// keep it.
	holders map[int]*Alloc
	current []*Alloc // live, as the current version would have them but for what changes in place
	old     []*Alloc // live, and to be replaced by the current version
	lost    []*Alloc // live on a node that is gone
	moved   []*Alloc // live on a node that the current version may not use any more
	drained []*Alloc // live, and to leave their node, with or without a successor
	ended   []*Alloc // ended when it should not have
	// canaries are beside those that have places, by index. They are live, or ended.
	canaries map[int]*Alloc

	// stuck is set when something failed and is not replaced now: no more is risked.
	stuck bool

	deployment *structs.Deployment      // of the current version; nil: none
	state      *structs.DeploymentGroup // in the deployment; nil: the group is in none
}

// rolls reports whether a group's updates are done step by step, and watched.
func rolls(job *nomad.Job, g *nomad.TaskGroup) bool {
	return !finite(job) && g.Update != nil && structs.Deref(g.Update.MaxParallel) > 0
}

// counted decides for a group of the service and batch types: count allocations, each with
// an index below count in its name, and canaries besides.
func (s *scheduler) counted(g *nomad.TaskGroup) {
	r := &rollout{scheduler: s, g: g, holders: map[int]*Alloc{}, canaries: map[int]*Alloc{}, deployment: s.Deployment}
	for _, a := range s.of(*g.Name) {
		r.sort(a)
	}
	r.deploy(*g.Count)
	replace := r.unplanned()
	for _, a := range r.current {
		s.update(a, r.joins())
	}
	replace = append(replace, r.missing()...)
	replace = append(replace, r.steps(len(replace))...)
	s.place(replace)
	s.unfinished = s.unfinished || r.active() && !r.finished(replace)
}

// sort finds out what an allocation is to the group. The newest come first.
func (r *rollout) sort(a *Alloc) {
	index := indexOf(a.Name)
	live := !a.ClientStatus.Terminal()
	switch {
	case isCanary(a):
		r.sortCanary(a, index)
		return
	case index < 0 || index >= *r.g.Count || r.holders[index] != nil:
		if live {
			r.stop(a, descNotNeeded)
		}
		return
	case live && r.node(a.NodeID) == nil:
		r.lost = append(r.lost, a)
	case live && a.Migrate:
		r.drained = append(r.drained, a)
	case live && r.destructive(a, r.g), live && r.outdated(a) && !r.stillFeasible(a, r.g):
		r.old = append(r.old, a)
	case live && !r.stillFeasible(a, r.g):
		r.moved = append(r.moved, a)
	case live:
		r.current = append(r.current, a)
	case r.obsolete(a, r.g):
		if finite(r.Job) || a.Job == nil || structs.Deref(a.Job.JobModifyIndex) < r.Since {
			return // its place is free
		}
		r.ended = append(r.ended, a)
	case finite(r.Job) && a.ClientStatus == structs.ClientComplete:
		r.res.Desired[*r.g.Name].Ignore++
	default:
		r.ended = append(r.ended, a)
	}
	r.holders[index] = a
}

func isCanary(a *Alloc) bool { return a.DeploymentStatus != nil && a.DeploymentStatus.Canary }

// sortCanary keeps the canaries that are to be promoted or not, and stops all others. What
// is of a deployment that is not known any more is of the one that takes its place.
func (r *rollout) sortCanary(a *Alloc, index int) {
	wanted := false
	if d := r.deployment; d == nil {
		wanted = !r.outdated(a)
	} else if g := d.TaskGroups[*r.g.Name]; g != nil {
		wanted = d.Active() && a.DeploymentID == d.ID && g.Canarying()
	}
	switch {
	case wanted && !a.Migrate && r.canaries[index] == nil:
		r.canaries[index] = a
	case !a.ClientStatus.Terminal():
		r.stop(a, descNotNeeded)
	}
}

// outdated reports whether an allocation is of another version than the current one.
func (s *scheduler) outdated(a *Alloc) bool {
	return a.Job == nil || structs.Deref(a.Job.JobModifyIndex) != structs.Deref(s.Job.JobModifyIndex)
}

// deploy finds the group's part in the deployment, or begins one: for a version that is
// new to the group, which is to have total allocations.
func (r *rollout) deploy(total int) {
	if d := r.deployment; d != nil {
		r.state = d.TaskGroups[*r.g.Name]
		return
	}
	changes := len(r.old) > 0 || len(r.canaries) > 0 || slices.ContainsFunc(r.current, r.outdated)
	isNew := !slices.ContainsFunc(r.Allocs, func(a *Alloc) bool { return a.TaskGroup == *r.g.Name && !r.outdated(a) })
	if !rolls(r.Job, r.g) || *r.g.Count == 0 || !changes && !isNew {
		return
	}
	u := r.g.Update
	r.state = &structs.DeploymentGroup{
		AutoRevert:       structs.Deref(u.AutoRevert),
		AutoPromote:      structs.Deref(u.AutoPromote),
		ProgressDeadline: structs.Deref(u.ProgressDeadline),
		DesiredTotal:     total,
	}
	if len(r.old) > 0 {
		r.state.DesiredCanaries = r.desiredCanaries(total)
	}
	r.deployment = r.begin()
	r.deployment.TaskGroups[*r.g.Name] = r.state
}

// desiredCanaries is how many canaries an update has. Those of the system types take the places
// of old ones, and their number is given as a part in a hundred.
func (r *rollout) desiredCanaries(total int) int {
	n := structs.Deref(r.g.Update.Canary)
	if PerNode(r.Job) {
		return min((total*n+99)/100, len(r.old))
	}
	return n
}

// begin returns the deployment that this decision begins.
func (s *scheduler) begin() *structs.Deployment {
	if s.res.Deployment == nil {
		s.res.Deployment = &structs.Deployment{
			ID:                 s.NewID(),
			Namespace:          *s.Job.Namespace,
			JobID:              *s.Job.ID,
			JobVersion:         structs.Deref(s.Job.Version),
			JobSpecModifyIndex: structs.Deref(s.Job.JobModifyIndex),
			JobCreateIndex:     structs.Deref(s.Job.CreateIndex),
			EvalPriority:       structs.Deref(s.Job.Priority),
			Status:             nomad.DeploymentStatusRunning,
			TaskGroups:         map[string]*structs.DeploymentGroup{},
		}
		if s.forgotten() {
			s.res.Deployment.Status = nomad.DeploymentStatusPaused
		}
	}
	return s.res.Deployment
}

// forgotten reports whether the current version has had a deployment that is not known
// any more. How far it came, and whether it failed, nobody knows: nothing is stopped for it.
func (s *scheduler) forgotten() bool {
	return slices.ContainsFunc(s.Allocs, func(a *Alloc) bool { return a.DeploymentID != "" && !s.outdated(a) })
}

// active reports whether the group is part of a deployment that is going on.
func (r *rollout) active() bool { return r.state != nil && r.deployment.Active() }

// joins is the deployment that the group's allocations become part of; empty: none.
func (r *rollout) joins() string {
	if r.active() {
		return r.deployment.ID
	}
	return ""
}

// held reports whether nothing of the current version takes the place of an old allocation
// now.
func (r *rollout) held() bool {
	return r.state != nil && (r.stopped() || r.deployment.Active() && r.state.Canarying())
}

// stopped reports whether the deployment was paused or has failed.
func (r *rollout) stopped() bool {
	return r.state != nil && (r.deployment.Status == nomad.DeploymentStatusPaused || r.deployment.Status == nomad.DeploymentStatusFailed)
}

// unplanned is what is replaced whatever the deployment does: what its node took along,
// and what failed, as its policy has it.
func (r *rollout) unplanned() (replace []wanted) {
	for _, a := range r.lost {
		r.stop(a, descLost)
		replace = append(replace, r.successor(a))
	}
	for _, a := range r.drained {
		r.res.Stop = append(r.res.Stop, Stop{ID: a.ID, Description: descMigrating})
		r.res.Desired[*r.g.Name].Migrate++
		replace = append(replace, r.successor(a))
	}
	for _, a := range r.moved {
		w := r.successor(a)
		w.stopping = descUpdating
		replace = append(replace, w)
	}
	for _, a := range r.ended {
		switch {
		case r.outdated(a) && r.destructive(a, r.g) && !r.held():
			w := r.successor(a)
			w.stopping = descUpdating
			replace = append(replace, w)
		case r.state != nil && r.deployment.Status == nomad.DeploymentStatusFailed && a.DeploymentID == r.deployment.ID:
			r.res.Desired[*r.g.Name].Ignore++
		default:
			now := r.failed(a, r.successor(a))
			r.stuck = r.stuck || len(now) == 0
			replace = append(replace, now...)
		}
	}
	return replace
}

// successor is what takes an allocation's place that is not there any more: the current
// version or, as long as that may not take the place of old ones, the same as before.
func (r *rollout) successor(a *Alloc) wanted {
	w := wanted{group: r.g, index: indexOf(a.Name), previous: a, deployment: r.joins()}
	if r.held() && r.destructive(a, r.g) && a.Job != nil {
		if g := a.Job.LookupTaskGroup(*r.g.Name); g != nil {
			w.group, w.job, w.deployment = g, a.Job, ""
		}
	}
	return w
}

// missing is what has no allocation at all. While nothing new is to come, only what was
// there before comes back.
func (r *rollout) missing() (place []wanted) {
	for index := range *r.g.Count {
		if r.holders[index] != nil {
			continue
		}
		w := wanted{group: r.g, index: index, previous: r.leaving(r.g, index, ""), deployment: r.joins()}
		if r.held() {
			before := r.before(func(a *Alloc) bool { return indexOf(a.Name) == index && !isCanary(a) })
			if before == nil {
				continue
			}
			previous := w.previous
			w = r.successor(before)
			w.previous = previous
		}
		place = append(place, w)
	}
	return place
}

// before returns the last of the group's allocations that had a place and was stopped, but
// not because there was no need for it; nil: there is none.
func (r *rollout) before(hadPlace func(*Alloc) bool) (last *Alloc) {
	for _, a := range r.Allocs {
		if a.TaskGroup == *r.g.Name && a.Job != nil && hadPlace(a) &&
			structs.Deref(a.Job.JobModifyIndex) >= r.Since && (last == nil || a.CreateIndex > last.CreateIndex) {
			last = a
		}
	}
	if last == nil || !last.ServerTerminal() || last.DesiredDescription == descNotNeeded {
		return nil
	}
	return last
}

// steps is what the update does now: canaries, or as many replacements as there is room
// for. Others are the places that get an allocation anyway.
func (r *rollout) steps(others int) (replace []wanted) {
	slices.SortFunc(r.old, func(a, b *Alloc) int { return cmp.Compare(indexOf(a.Name), indexOf(b.Name)) })
	room := len(r.old)
	switch {
	case r.held():
		room = 0
		replace = r.canarySteps()
	case r.active():
		room = min(room, max(0, r.room()-others))
	}
	for _, a := range r.old[:room] {
		replace = append(replace, wanted{group: r.g, index: indexOf(a.Name), previous: a, stopping: descUpdating, deployment: r.joins()})
	}
	r.res.Desired[*r.g.Name].Ignore += uint64(len(r.old) - room)
	return replace
}

// room is how many allocations more may be without health because of the update.
func (r *rollout) room() int {
	if r.stuck {
		return 0
	}
	room := *r.g.Update.MaxParallel
	for _, a := range r.current {
		switch healthy, decided := healthIn(a, r.deployment.ID); {
		case !decided:
			room--
		case !healthy:
			return 0
		}
	}
	return room
}

// healthIn is an allocation's health in a deployment.
func healthIn(a *Alloc, deployment string) (healthy, decided bool) {
	if s := a.DeploymentStatus; a.DeploymentID == deployment && s != nil && s.Healthy != nil {
		return *s.Healthy, true
	}
	return false, false
}

// canarySteps is what canaries there are to be more: beside the allocations that they
// are to take the place of, then beside none. One that failed is replaced as its policy has
// it.
func (r *rollout) canarySteps() (place []wanted) {
	taken := map[int]bool{}
	canary := func(index int) wanted {
		taken[index] = true
		return wanted{group: r.g, index: index, deployment: r.deployment.ID, canary: true}
	}
	for index, a := range r.canaries {
		if w := canary(index); a.ClientStatus.Terminal() {
			w.previous = a
			place = append(place, r.failed(a, w)...)
		} else {
			r.update(a, r.joins())
		}
	}
	if r.stopped() {
		return nil
	}
	for _, a := range r.old {
		if index := indexOf(a.Name); !taken[index] && len(taken) < r.state.DesiredCanaries {
			place = append(place, canary(index))
		}
	}
	for index := 0; len(taken) < r.state.DesiredCanaries; index++ {
		if !taken[index] {
			place = append(place, canary(index))
		}
	}
	slices.SortFunc(place, func(a, b wanted) int { return cmp.Compare(a.index, b.index) })
	return place
}

// finished reports whether every place of the group is held by a healthy allocation of the
// deployment.
func (r *rollout) finished(replace []wanted) bool {
	healthy := 0
	for _, a := range r.current {
		if is, _ := healthIn(a, r.deployment.ID); is {
			healthy++
		}
	}
	return !r.state.Canarying() && len(replace) == 0 && len(r.old) == 0 && healthy == *r.g.Count
}
