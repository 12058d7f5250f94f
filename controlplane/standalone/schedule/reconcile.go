package schedule

import (
	"slices"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// failed decides what becomes of an allocation that ended when it should not have:
// it is replaced now, or later, or keeps its place as it is.
func (s *scheduler) failed(a *Alloc, w wanted) []wanted {
	at, reschedule, ok := next(w.group.ReschedulePolicy, a)
	d := s.res.Desired[a.TaskGroup]
	switch {
	case a.ClientStatus == "lost":
		return []wanted{w}
	case s.ForceReschedule:
	case !ok:
		d.Ignore++
		return nil
	case at.After(s.Now):
		s.res.Later = append(s.res.Later, Later{ID: a.ID, At: at})
		d.RescheduleLater++
		return nil
	}
	reschedule.Time = s.Now.UnixNano()
	w.reschedule = &reschedule
	w.stopping = descRescheduled
	d.RescheduleNow++
	return []wanted{w}
}

// system decides for a group of the system types: one allocation on every node that
// may run it. One that ended keeps its node until the job changes.
func (s *scheduler) system(g *nomad.TaskGroup) {
	taken := map[string]bool{}
	var replace []wanted
	for _, a := range s.of(*g.Name) {
		n := s.node(a.NodeID)
		live := !a.ClientStatus.Terminal()
		switch {
		case live && n == nil:
			s.stop(a, descLost)
			continue
		case live && taken[a.NodeID]:
			s.stop(a, descNotNeeded)
			continue
		case taken[a.NodeID] || n == nil:
			continue
		case live && !s.stillFeasible(a, g):
			s.stop(a, descInfeasible)
			continue
		case live && a.Migrate:
			s.stop(a, descDrained)
		case live && s.destructive(a, g):
			replace = append(replace, wanted{group: g, node: n, previous: a, stopping: descUpdating})
		case live:
			s.update(a, "")
		case s.obsolete(a, g) || a.ClientStatus == "lost":
			continue
		default:
			s.res.Desired[*g.Name].Ignore++
		}
		taken[a.NodeID] = true
	}
	for _, n := range s.Nodes {
		if !taken[n.ID] && n.Status != "down" {
			replace = append(replace, wanted{group: g, node: n, previous: s.leaving(g, 0, n.ID)})
		}
	}
	s.place(replace)
	// A node that may not run the group is not a failure when others may.
	if m := s.res.Failed[*g.Name]; m != nil && m.NodesExhausted == 0 && s.placedSome(g, taken) {
		delete(s.res.Failed, *g.Name)
		s.res.Queued[*g.Name] = 0
	}
}

func (s *scheduler) placedSome(g *nomad.TaskGroup, taken map[string]bool) bool {
	return len(taken) > 0 || slices.ContainsFunc(s.res.Place, func(a *Alloc) bool { return a.TaskGroup == *g.Name })
}

// leaving returns the newest allocation of that name (and on that node, if named)
// that is stopping but has not ended: its successor waits for it and so may have what
// it still holds. Nil: there is none.
func (s *scheduler) leaving(g *nomad.TaskGroup, index int, nodeID string) (newest *Alloc) {
	name := allocName(*s.Job.ID, *g.Name, index)
	for _, a := range s.Allocs {
		if a.Name == name && a.ServerTerminal() && !a.ClientStatus.Terminal() && a.NextAllocation == "" &&
			(nodeID == "" || a.NodeID == nodeID) && s.node(a.NodeID) != nil &&
			(newest == nil || a.CreateIndex > newest.CreateIndex) {
			newest = a
		}
	}
	return newest
}

// stillFeasible reports whether a live allocation's node would be chosen for it by
// the current version of the job. Health and eligibility do not count: what runs is
// not stopped because its driver is unwell.
func (s *scheduler) stillFeasible(a *Alloc, g *nomad.TaskGroup) bool {
	n := s.node(a.NodeID)
	if n == nil || !inPool(s.Job, n) || !inDatacenter(s.Job, n) {
		return false
	}
	return structs.Deref(a.Job.JobModifyIndex) == structs.Deref(s.Job.JobModifyIndex) || len(s.unmet(n, g, a)) == 0
}

// indexOf returns the index in an allocation's name, -1 when there is none.
func indexOf(name string) int {
	open := strings.LastIndexByte(name, '[')
	if open < 0 || !strings.HasSuffix(name, "]") {
		return -1
	}
	index, err := strconv.Atoi(name[open+1 : len(name)-1])
	if err != nil {
		return -1
	}
	return index
}
