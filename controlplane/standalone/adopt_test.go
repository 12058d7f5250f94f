package standalone

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// knowledge is what the test node knows when it has just heard a control plane: its jobs'
// allocations, which all run, and any others.
func knowledge(t *testing.T, cp *ControlPlane, more ...structs.KnownAllocation) *structs.NodeKnowledge {
	known := &structs.NodeKnowledge{ControlPlane: cp.id, Index: last(t, cp)}
	for _, j := range cp.Jobs() {
		for _, a := range cp.JobAllocations(*j.Namespace, *j.ID) {
			if !a.Terminal() {
				known.Allocations = append(known.Allocations, as(a, structs.ClientRunning))
			}
		}
	}
	known.Allocations = append(known.Allocations, more...)
	return known
}

// as is an allocation that its node knows in a state.
func as(a *structs.Allocation, status structs.ClientStatus) structs.KnownAllocation {
	return structs.KnownAllocation{Allocation: a, State: &structs.AllocationState{ID: a.ID, ClientStatus: status}}
}

func adopt(t *testing.T, cp *ControlPlane, known *structs.NodeKnowledge) *structs.Adoption {
	t.Helper()
	out, err := cp.ForNode().Adopt(t.Context(), testNode(), known)
	require.NoError(t, err)
	require.Equal(t, cp.id, out.ControlPlane)
	again, err := cp.ForNode().Adopt(t.Context(), testNode(), &structs.NodeKnowledge{
		ControlPlane: out.ControlPlane, Index: out.Index, Allocations: known.Allocations, Found: known.Found, Unreadable: known.Unreadable,
	})
	require.NoError(t, err)
	require.Empty(t, again.Adopted, "adopting again finds nothing")
	require.Empty(t, again.Stopped)
	return out
}

// nodeEvents are those of the test node's events.
func nodeEvents(cp *ControlPlane) (list []string) {
	if n := cp.Node(testNode().ID); n != nil {
		for _, e := range n.Events {
			list = append(list, e.Message)
		}
	}
	return list
}

func TestAnEmptyMemoryTakesOverWhatRuns(t *testing.T) {
	lost := withNode(t, "")
	run(t, lost, testJob("web", "service", count(2)))
	run(t, lost, testJob("web", "service", count(2), user("u")))
	run(t, lost, testJob("sum", "batch"))
	known := knowledge(t, lost)
	require.Len(t, known.Allocations, 3)

	cp := open(t, "")
	out := adopt(t, cp, known)
	require.Equal(t, "the control plane's memory was empty", out.Why)
	require.Len(t, out.Adopted, 3)
	require.ElementsMatch(t, []string{"web", "sum"}, out.Jobs)
	require.Empty(t, out.Waiting)
	require.Empty(t, out.Released)
	require.Contains(t, nodeEvents(cp), out.String())
	for _, k := range known.Allocations {
		a := cp.Allocation(k.ID)
		require.Equal(t, structs.ClientRunning, a.ClientStatus)
		require.Equal(t, k.CreateIndex, a.CreateIndex)
		require.Equal(t, *k.Job.JobModifyIndex, *a.Job.JobModifyIndex)
	}
	require.Equal(t, statusRunning, status(cp, "web"))
	require.EqualValues(t, 1, *cp.Job("default", "web").Version)
	registerNode(t, cp, testNode())
	require.Len(t, cp.JobAllocations("default", "web"), 2, "none is started beside those that run")
	require.GreaterOrEqual(t, last(t, cp), known.Index)
	run(t, cp, testJob("web", "service", count(3), user("u")))
	require.Len(t, wanted(cp, "web"), 3)
}

func TestWhatHasEndedIsNotStartedAgainByAMemoryThatIsLost(t *testing.T) {
	for _, c := range []struct {
		kind    string
		desired structs.DesiredStatus
		stops   bool // the job
	}{{"service", structs.DesiredRun, true}, {"batch", structs.DesiredRun, false}, {"batch", structs.DesiredStop, true}} {
		lost := withNode(t, "")
		run(t, lost, testJob("j", c.kind))
		a := wanted(lost, "j")[0].Copy()
		a.DesiredStatus = c.desired
		cp := withNode(t, "")
		out := adopt(t, cp, &structs.NodeKnowledge{ControlPlane: lost.id, Allocations: []structs.KnownAllocation{as(a, structs.ClientComplete)}})
		require.Equal(t, "the control plane's memory is another one than the node knew", out.Why, "an allocation tells its index, too")
		require.Equal(t, []string{"j"}, out.Jobs, c)
		require.Empty(t, wanted(cp, "j"), c)
		require.Equal(t, c.stops, *cp.Job("default", "j").Stop, c)
		require.Equal(t, statusDead, status(cp, "j"))
	}
}

func TestWhatIsNotClearWaitsForAPerson(t *testing.T) {
	remote := withNode(t, "") // whose allocations the node has
	run(t, remote, testJob("web", "service"))
	a := wanted(remote, "web")[0]
	without := func(change func(*structs.Allocation)) structs.KnownAllocation {
		c := a.Copy()
		change(c)
		return as(c, structs.ClientRunning)
	}
	for name, c := range map[string]struct {
		have  func(cp *ControlPlane)
		known structs.KnownAllocation
		same  bool // it is this control plane's
		waits string
	}{
		"nothing else":            {nil, as(a, structs.ClientRunning), false, ""},
		"the same job":            {func(cp *ControlPlane) { run(t, cp, testJob("web", "service")) }, as(a, structs.ClientRunning), false, ""},
		"another count":           {func(cp *ControlPlane) { run(t, cp, testJob("web", "service", count(0))) }, as(a, structs.ClientRunning), false, "in another version (0)"},
		"another version":         {func(cp *ControlPlane) { run(t, cp, testJob("web", "service", user("u"))) }, as(a, structs.ClientRunning), false, "in another version (0)"},
		"a job that was stopped":  {stopped(t, false), as(a, structs.ClientRunning), false, `job "web" is stopped`},
		"a job that is gone":      {stopped(t, true), as(a, structs.ClientRunning), true, `does not know job "web" any more`},
		"no job":                  {nil, without(func(a *structs.Allocation) { a.Job = nil }), false, "its job is not stored with it in full"},
		"a job without a version": {nil, without(func(a *structs.Allocation) { c := *a.Job; c.Version = nil; a.Job = &c }), false, "its job is not stored with it in full"},
		"another group":           {nil, without(func(a *structs.Allocation) { a.TaskGroup = "other" }), false, `its job has no group "other"`},
	} {
		t.Run(name, func(t *testing.T) {
			cp := withNode(t, "")
			if c.have != nil {
				c.have(cp)
			}
			known := &structs.NodeKnowledge{ControlPlane: remote.id, Allocations: []structs.KnownAllocation{c.known}}
			if c.same {
				known.ControlPlane = cp.id
				c.known.CreateIndex, c.known.AllocModifyIndex = 1, 1
			}
			before := len(cp.Jobs())
			out := adopt(t, cp, known)
			if c.waits == "" {
				require.Empty(t, out.Waiting)
				require.Equal(t, []string{a.ID}, out.Adopted)
				require.Len(t, out.Jobs, 1-before)
				require.Len(t, wanted(cp, "web"), 1)
				require.EqualValues(t, 0, *cp.Job("default", "web").Version)
				return
			}
			require.Contains(t, out.Waiting[a.ID], c.waits)
			require.Empty(t, out.Adopted)
			require.Nil(t, cp.Allocation(a.ID))
			require.Len(t, cp.Jobs(), before)
		})
	}
}

// A row of the memory may be lost alone, while its job was changed without a new allocation.
func TestAnAllocationOfAnEarlierVersionIsAdopted(t *testing.T) {
	cp := withNode(t, "")
	run(t, cp, testJob("web", "service"))
	lost := wanted(cp, "web")[0].Copy()
	run(t, cp, testJob("web", "service", user("u")))
	known := knowledge(t, cp)
	lost.ID = "22222222-2222-2222-2222-222222222222"
	known.Allocations = append(known.Allocations, as(lost, structs.ClientRunning))
	out := adopt(t, cp, known)
	require.Empty(t, out.Waiting)
	require.Equal(t, []string{lost.ID}, out.Adopted)
	require.EqualValues(t, 0, *cp.Allocation(lost.ID).Job.Version)
	require.EqualValues(t, 1, *cp.Job("default", "web").Version)
}

// stopped runs and stops the job, and may purge it.
func stopped(t *testing.T, purge bool) func(*ControlPlane) {
	return func(cp *ControlPlane) {
		run(t, cp, testJob("web", "service"))
		_, err := cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "web", Purge: purge})
		require.NoError(t, err)
		if purge {
			cp.CollectGarbage()
		}
	}
}

func TestAMemoryThatIsWholeDecidesItself(t *testing.T) {
	cp := withNode(t, "")
	run(t, cp, testJob("web", "service", count(4)))
	list := wanted(cp, "web")
	for _, a := range list {
		require.NoError(t, cp.ForNode().UpdateAllocations(t.Context(), a.NodeID, []*structs.AllocationState{{
			ID: a.ID, ClientStatus: structs.ClientRunning, TaskStates: map[string]*structs.TaskState{"t": {State: structs.TaskRunning}},
		}}))
	}
	gone := list[0].Copy()
	gone.ID, gone.CreateIndex = "22222222-2222-2222-2222-222222222222", last(t, cp)
	known := &structs.NodeKnowledge{
		ControlPlane: cp.id, Index: last(t, cp), Found: []string{list[2].ID}, Unreadable: []string{list[3].ID},
		Allocations: []structs.KnownAllocation{as(list[0], structs.ClientRunning), as(gone, structs.ClientComplete)},
	}
	out := adopt(t, cp, known)
	require.Empty(t, out.Why)
	require.Equal(t, []string{gone.ID}, out.Released, "it let go of what has ended")
	for i, want := range []structs.ClientStatus{structs.ClientRunning, structs.ClientPending, structs.ClientRunning, structs.ClientRunning} {
		require.Equal(t, want, cp.Allocation(list[i].ID).ClientStatus, "allocation %d: what the node does not have does not run", i)
	}
	require.Equal(t, structs.TaskPending, cp.Allocation(list[1].ID).TaskStates["t"].State, "nor does its task")
	require.Equal(t, structs.TaskRunning, cp.Allocation(list[2].ID).TaskStates["t"].State)
	require.NotContains(t, nodeEvents(cp), out.String(), "nothing was wrong")

	report(t, cp, list[1], structs.ClientPending)
	adopt(t, cp, knowledge(t, cp))
	require.Equal(t, structs.ClientRunning, cp.Allocation(list[1].ID).ClientStatus, "the node knows better")
}

// What the node knows of an allocation that is known here, too, and what becomes of it here.
func TestWhatTheNodeKnowsBetterIsTakenOver(t *testing.T) {
	failed := func(a structs.KnownAllocation) structs.KnownAllocation {
		a.State.ClientDescription, a.State.TaskStates = "why", map[string]*structs.TaskState{"task": {State: structs.TaskDead}}
		return a
	}
	for name, c := range map[string]struct {
		mine  structs.ClientStatus
		knows func(a *structs.Allocation) structs.KnownAllocation
		want  structs.ClientStatus
	}{
		"it runs":                  {structs.ClientPending, func(a *structs.Allocation) structs.KnownAllocation { return as(a, structs.ClientRunning) }, structs.ClientRunning},
		"it is no further":         {structs.ClientRunning, func(a *structs.Allocation) structs.KnownAllocation { return as(a, structs.ClientRunning) }, structs.ClientRunning},
		"nothing is known of it":   {structs.ClientRunning, func(a *structs.Allocation) structs.KnownAllocation { return structs.KnownAllocation{Allocation: a} }, structs.ClientRunning},
		"its end is to be told":    {structs.ClientRunning, func(a *structs.Allocation) structs.KnownAllocation { return failed(as(a, structs.ClientFailed)) }, structs.ClientRunning},
		"its end was told already": {structs.ClientComplete, func(a *structs.Allocation) structs.KnownAllocation { return failed(as(a, structs.ClientRunning)) }, structs.ClientComplete},
	} {
		t.Run(name, func(t *testing.T) {
			cp := withNode(t, "")
			run(t, cp, testJob("sum", "batch"))
			a := wanted(cp, "sum")[0]
			report(t, cp, a, c.mine)
			before := cp.Allocation(a.ID)
			out := adopt(t, cp, &structs.NodeKnowledge{ControlPlane: cp.id, Index: last(t, cp), Allocations: []structs.KnownAllocation{c.knows(a)}})
			require.Empty(t, out.Waiting)
			require.Empty(t, out.Adopted)
			now := cp.Allocation(a.ID)
			require.Equal(t, c.want, now.ClientStatus)
			require.Empty(t, now.ClientDescription)
			require.Empty(t, now.TaskStates)
			if c.mine == c.want {
				require.Equal(t, before.ModifyIndex, now.ModifyIndex, "nothing changed")
			}
		})
	}
}

// An allocation whose state the node has not has that which the control plane told it.
func TestAnAllocationIsAdoptedAsFarAsItsNodeKnows(t *testing.T) {
	lost := withNode(t, "")
	run(t, lost, testJob("web", "service", count(3)))
	list := wanted(lost, "web")
	told := func(a *structs.Allocation, status structs.ClientStatus) structs.KnownAllocation {
		c := a.Copy()
		c.ClientStatus = status
		return structs.KnownAllocation{Allocation: c}
	}
	restarted := told(list[2], structs.ClientComplete)
	restarted.State = &structs.AllocationState{ID: list[2].ID, ClientStatus: structs.ClientRunning}
	known := []structs.KnownAllocation{told(list[0], structs.ClientRunning), told(list[1], structs.ClientComplete), restarted}
	for i, want := range []bool{false, true, false} {
		require.Equal(t, want, ended(known[i]), i)
	}

	cp := withNode(t, "")
	before := last(t, cp)
	out := adopt(t, cp, &structs.NodeKnowledge{ControlPlane: lost.id, Allocations: known[:2]})
	require.ElementsMatch(t, []string{list[0].ID, list[1].ID}, out.Adopted)
	require.Equal(t, structs.ClientRunning, cp.Allocation(list[0].ID).ClientStatus)
	require.Equal(t, structs.ClientComplete, cp.Allocation(list[1].ID).ClientStatus)
	assigned, err := cp.ForNode().Allocations(t.Context(), testNode().ID, before)
	require.NoError(t, err)
	require.False(t, assigned.All)
	require.Contains(t, assigned.Changed, cp.Allocation(list[0].ID), "the node is told that it has it")
}

// older returns a control plane with the file as it is now, to be opened later.
func older(t *testing.T, cp *ControlPlane, path string) (reopen func() *ControlPlane) {
	t.Helper()
	require.NoError(t, cp.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return func() *ControlPlane {
		again := filepath.Join(t.TempDir(), "server.db")
		require.NoError(t, os.WriteFile(again, content, 0o600))
		return open(t, again)
	}
}

func TestAnOlderMemoryTakesOverWhatWasDecidedSince(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.db")
	cp := withNode(t, path)
	for _, id := range []string{"kept", "ended", "stopped", "changed"} {
		run(t, cp, testJob(id, "service"))
	}
	reopen := older(t, cp, path)
	cp = open(t, path)
	ended := wanted(cp, "ended")[0]
	report(t, cp, ended, structs.ClientComplete)
	stop := wanted(cp, "stopped")[0]
	_, err := cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "stopped"})
	require.NoError(t, err)
	run(t, cp, testJob("changed", "service", priority(70)))
	run(t, cp, testJob("new", "service"))
	known := knowledge(t, cp, as(cp.Allocation(stop.ID), structs.ClientComplete))

	cp = reopen()
	out := adopt(t, cp, known)
	require.Contains(t, out.Why, "is older than the node's")
	require.Equal(t, []string{"ended", "stopped"}, out.Stopped, "nothing of them runs")
	require.Equal(t, structs.ClientLost, cp.Allocation(ended.ID).ClientStatus, "the node has it not")
	require.Equal(t, structs.DesiredStop, cp.Allocation(stop.ID).DesiredStatus)
	require.Equal(t, 70, *cp.Job("default", "changed").Priority)
	require.EqualValues(t, 1, *cp.Job("default", "changed").Version)
	require.Len(t, wanted(cp, "kept"), 1)
	require.Len(t, wanted(cp, "changed"), 1)
	require.Len(t, wanted(cp, "new"), 1)
	require.Equal(t, []string{"new"}, out.Jobs)
	require.True(t, *cp.Job("default", "stopped").Stop)
	require.False(t, *cp.Job("default", "kept").Stop)
	run(t, cp, testJob("later", "service"))
	require.Greater(t, *cp.Job("default", "later").JobModifyIndex, known.Index, "indexes go on above what the node heard")
}

func TestAPersonClaimsAnAllocation(t *testing.T) {
	remote := withNode(t, "")
	run(t, remote, testJob("web", "service"))
	k := as(wanted(remote, "web")[0], structs.ClientRunning)
	for name, have := range map[string]func(*ControlPlane){
		"of a job that is not known": func(*ControlPlane) {},
		"of a job that is stopped":   stopped(t, false),
		"of another version":         func(cp *ControlPlane) { run(t, cp, testJob("web", "service", user("u"))) },
		"older than another version's": func(cp *ControlPlane) {
			run(t, cp, testJob("other", "service"))
			run(t, cp, testJob("web", "service", user("u")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			cp := withNode(t, "")
			have(cp)
			for range 2 { // the second time it is known
				require.NoError(t, cp.ForNode().Claim(t.Context(), testNode().ID, k))
				require.Equal(t, structs.ClientRunning, cp.Allocation(k.ID).ClientStatus)
				j := cp.Job("default", "web")
				require.False(t, *j.Stop)
				require.Empty(t, j.TaskGroups[0].Tasks[0].User)
				require.Len(t, wanted(cp, "web"), 1)
				require.Equal(t, k.ID, wanted(cp, "web")[0].ID)
			}
		})
	}
	cp := withNode(t, "")
	require.ErrorIs(t, cp.ForNode().Claim(t.Context(), "none", k), errdefs.NotFound)
	bare := k.Copy()
	bare.Job = &nomad.Job{}
	require.ErrorIs(t, cp.ForNode().Claim(t.Context(), testNode().ID, as(bare, structs.ClientRunning)), errdefs.FailedPrecondition)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, cp.ForNode().Claim(ended, testNode().ID, k), context.Canceled)
	_, err := cp.ForNode().Adopt(ended, testNode(), knowledge(t, remote))
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, cp.Jobs())
}

func TestANodeIsFoundByItsName(t *testing.T) {
	cp := open(t, "")
	found := func(name string) string {
		id, err := cp.ForNode().NodeID(t.Context(), name)
		require.NoError(t, err)
		return id
	}
	require.Empty(t, found("here"))
	registerNode(t, cp, testNode())
	second := testNode()
	second.ID = "22222222-2222-2222-2222-222222222222"
	registerNode(t, cp, second)
	require.Equal(t, second.ID, found("here"), "the first one is down since there is another")
	require.Empty(t, found("there"))
}

// last is the index of a control plane's last change.
func last(t require.TestingT, cp *ControlPlane) (index uint64) {
	require.NoError(t, cp.write(func(tx *tx) error {
		index = tx.index
		return nil
	}))
	return index
}
