package schedule

import (
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
	d.RescheduleNow++
	return []wanted{w}
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
	return structs.Deref(a.Job.JobModifyIndex) == structs.Deref(s.Job.JobModifyIndex) || len(s.unmet(n, g, indexOf(a.Name), a)) == 0
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
