package schedule

import (
	"cmp"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// nodewise is how a group of the system types comes to the job's current version: on every
// node that may run it, as many as its count. A new version takes the place of what is
// there: on one node, no two are beside each other, and canaries are on some of the nodes.
type nodewise struct {
	*rollout
	holders map[slot]*Alloc
	// canaries counts those of the deployment.
	canaries int
}

// slot is a place on a node.
type slot struct {
	node  string
	index int
}

// everyNode decides for a group of the system types. What ended keeps its slot until the job
// changes.
func (s *scheduler) everyNode(g *nomad.TaskGroup) {
	r := &nodewise{rollout: &rollout{scheduler: s, g: g, deployment: s.Deployment}, holders: map[slot]*Alloc{}}
	for _, a := range s.of(*g.Name) {
		r.sort(a)
	}
	free, closed := r.free()
	r.deploy(len(r.current) + len(r.old) + len(r.ended) + len(free))
	r.stay()
	replace := append(r.again(), r.fill(free)...)
	replace = append(replace, r.steps(len(replace))...)
	s.place(replace)
	s.unfinished = s.unfinished || r.active() && !r.finished(replace)
	if len(r.holders) == 0 && len(free) == 0 {
		s.place(closed) // which tells why there is no place
		s.res.Queued[*g.Name] = 0
	}
}

// sort finds out what an allocation is to the group. The newest come first.
func (r *nodewise) sort(a *Alloc) {
	at := slot{a.NodeID, indexOf(a.Name)}
	n, live := r.node(a.NodeID), !a.ClientStatus.Terminal()
	switch {
	case live && n == nil:
		r.stop(a, descLost)
		return
	case at.index < 0 || at.index >= *r.g.Count || r.holders[at] != nil:
		if live {
			r.stop(a, descNotNeeded)
		}
		return
	case live && !r.stillFeasible(a, r.g):
		r.stop(a, descInfeasible)
		return
	case live && a.Migrate:
		r.stop(a, descDrained)
	case live:
		r.sortLive(a, n)
	case n == nil || a.ClientStatus == structs.ClientLost || finite(r.Job) && r.obsolete(a, r.g):
		return // its slot is free
	case a.Job == nil || structs.Deref(a.Job.JobModifyIndex) < r.Since:
		return
	case finite(r.Job), r.outdated(a) && !r.open(n):
		r.res.Desired[*r.g.Name].Ignore++
	default:
		r.ended = append(r.ended, a)
	}
	r.holders[at] = a
}

// sortLive sorts one that runs where it may. A node that takes nothing new keeps what it has.
func (r *nodewise) sortLive(a *Alloc, n *structs.Node) {
	switch {
	case !r.destructive(a, r.g):
		r.current = append(r.current, a)
	case ready(n):
		r.old = append(r.old, a)
	default:
		r.res.Desired[*r.g.Name].Ignore++
	}
}

// free returns the slots without an allocation, apart from those on nodes that may not
// have one.
func (r *nodewise) free() (free, closed []wanted) {
	for _, n := range r.Nodes {
		if n.Status == structs.NodeDown {
			continue
		}
		for index := range *r.g.Count {
			w := wanted{group: r.g, node: n, index: index, previous: r.leaving(r.g, index, n.ID)}
			switch {
			case r.holders[slot{n.ID, index}] != nil:
			case r.open(n):
				free = append(free, w)
			default:
				closed = append(closed, w)
			}
		}
	}
	return free, closed
}

// open reports whether a node may be given an allocation of the group, if it has room.
func (r *nodewise) open(n *structs.Node) bool {
	return ready(n) && inPool(r.Job, n) && inDatacenter(r.Job, n) && len(r.infeasible(n, r.g, 0, nil)) == 0
}

// stay changes in place what needs not be replaced, and counts the canaries.
func (r *nodewise) stay() {
	canarying := r.state != nil && r.state.Canarying()
	for _, a := range r.current {
		c := r.update(a, r.joins())
		switch {
		case !isCanary(a):
		case canarying && (c == nil || r.canaries < r.state.DesiredCanaries):
			r.canaries++
		case c != nil: // of a deployment that was superseded
			c.DeploymentStatus.Canary = false
		}
	}
	for _, a := range r.ended {
		if isCanary(a) && a.DeploymentID == r.joins() {
			r.canaries++
		}
	}
}

// again is what takes the place of what ended: another version of the job and, when its
// deployment has failed, the same one once more, as with Nomad.
func (r *nodewise) again() (replace []wanted) {
	for _, a := range r.ended {
		w := wanted{group: r.g, node: r.node(a.NodeID), index: indexOf(a.Name), previous: a}
		switch {
		case r.outdated(a) && (!r.held() || r.lacksCanary()):
			w.stopping, w.deployment = descUpdating, r.joins()
			w.canary = r.addCanary()
			replace = append(replace, w)
		case r.state != nil && r.deployment.Status == nomad.DeploymentStatusFailed && a.DeploymentID == r.deployment.ID && r.open(w.node):
			replace = append(replace, w)
		default:
			r.res.Desired[*r.g.Name].Ignore++
			r.stuck = r.stuck || !r.outdated(a)
		}
	}
	return replace
}

// fill has free slots filled: with canaries as long as there are to be more and, while no
// new version is to come, with what was there before.
func (r *nodewise) fill(free []wanted) []wanted {
	for i := range free {
		w := &free[i]
		before := r.before(func(a *Alloc) bool { return a.NodeID == w.node.ID && indexOf(a.Name) == w.index })
		switch {
		case r.lacksCanary():
			w.deployment, w.canary = r.joins(), r.addCanary()
		case r.held() && before != nil && r.destructive(before, r.g) && before.Job.LookupTaskGroup(*r.g.Name) != nil:
			w.job, w.group = before.Job, before.Job.LookupTaskGroup(*r.g.Name)
		default:
			w.deployment = r.joins()
		}
	}
	return free
}

// canarying reports whether canaries are placed now.
func (r *nodewise) canarying() bool { return r.active() && !r.stopped() && r.state.Canarying() }

// lacksCanary reports whether there are to be more canaries.
func (r *nodewise) lacksCanary() bool { return r.canarying() && r.canaries < r.state.DesiredCanaries }

// addCanary reports whether what is placed next is a canary, and counts it.
func (r *nodewise) addCanary() bool {
	if !r.lacksCanary() {
		return false
	}
	r.canaries++
	return true
}

// steps is what the update replaces now: as much as there is room for, and while canaries
// are to be promoted no more than are to be canaries. Others are the slots that get an
// allocation anyway.
func (r *nodewise) steps(others int) (replace []wanted) {
	slices.SortFunc(r.old, func(a, b *Alloc) int {
		return cmp.Or(cmp.Compare(a.NodeID, b.NodeID), cmp.Compare(indexOf(a.Name), indexOf(b.Name)))
	})
	room := len(r.old)
	switch {
	case r.stopped():
		room = 0
	case r.active():
		room = min(room, max(0, r.room()-others))
	}
	if r.canarying() {
		room = min(room, max(0, r.state.DesiredCanaries-r.canaries))
	}
	for _, a := range r.old[:room] {
		replace = append(replace, wanted{group: r.g, node: r.node(a.NodeID), index: indexOf(a.Name), previous: a,
			stopping: descUpdating, deployment: r.joins(), canary: r.canarying()})
	}
	r.res.Desired[*r.g.Name].Ignore += uint64(len(r.old) - room)
	return replace
}

// finished reports whether every slot is held by a healthy allocation of the deployment.
func (r *nodewise) finished(replace []wanted) bool {
	for _, a := range r.current {
		if healthy, _ := healthIn(a, r.deployment.ID); !healthy {
			return false
		}
	}
	return !r.state.Canarying() && len(replace) == 0 && len(r.old) == 0 && len(r.ended) == 0
}
