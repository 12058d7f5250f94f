package standalone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/internal/leaktest"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

func TestMain(m *testing.M) {
	if err := os.Setenv(boltfile.StrictEnv, "1"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(leaktest.WithTimeout(m))
}

func open(t *testing.T, path string) *ControlPlane {
	s, err := Open(Options{Path: path})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func testNode() *structs.Node {
	return &structs.Node{
		ID: "11111111-1111-1111-1111-111111111111", Name: "here", Datacenter: "dc1", Region: "global",
		Status: structs.NodeReady, Attributes: map[string]string{"kernel.name": "linux"},
		Resources: structs.NodeResources{CPUMHz: 4000, Cores: 4, MemoryMB: 1000, DiskMB: 10000},
		Drivers:   map[string]*structs.DriverInfo{"mock": {Detected: true, Healthy: true}},
	}
}

// withNode is a control plane with one node.
func withNode(t *testing.T, path string) *ControlPlane {
	s := open(t, path)
	registerNode(t, s, testNode())
	return s
}

func registerNode(t *testing.T, cp *ControlPlane, n *structs.Node) {
	_, err := cp.ForNode().Register(t.Context(), n)
	require.NoError(t, err)
}

func testJob(id, kind string, change ...func(*nomad.Job)) *nomad.Job {
	j := &nomad.Job{
		ID: &id, Type: &kind,
		TaskGroups: []*nomad.TaskGroup{{
			Name:          new("g"),
			EphemeralDisk: &nomad.EphemeralDisk{SizeMB: new(10)},
			Tasks: []*nomad.Task{{
				Name: "t", Driver: "mock", Resources: &nomad.Resources{CPU: new(10), MemoryMB: new(100)},
				LogConfig: &nomad.LogConfig{MaxFiles: new(1), MaxFileSizeMB: new(1)},
			}},
		}},
	}
	for _, c := range change {
		c(j)
	}
	return j
}

func count(n int) func(*nomad.Job) { return func(j *nomad.Job) { j.TaskGroups[0].Count = &n } }
func memory(mb int) func(*nomad.Job) {
	return func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB = &mb }
}
func user(name string) func(*nomad.Job) {
	return func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].User = name }
}
func priority(p int) func(*nomad.Job) { return func(j *nomad.Job) { j.Priority = &p } }
func reschedule(d time.Duration) func(*nomad.Job) {
	return func(j *nomad.Job) {
		j.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{Delay: &d, Unlimited: new(true), DelayFunction: new("constant")}
	}
}

func run(t *testing.T, cp *ControlPlane, j *nomad.Job) *structs.Evaluation {
	resp, err := cp.RegisterJob(&structs.JobRegistration{Job: j})
	require.NoError(t, err)
	e := cp.Evaluation(resp.EvalID)
	require.NotNil(t, e)
	return e
}

// wanted returns a job's allocations that are to run.
func wanted(cp *ControlPlane, id string) (list []*structs.Allocation) {
	for _, a := range cp.JobAllocations("default", id) {
		if !a.Terminal() {
			list = append(list, a)
		}
	}
	return list
}

func report(t *testing.T, cp *ControlPlane, a *structs.Allocation, status structs.ClientStatus) {
	require.NoError(t, cp.ForNode().UpdateAllocations(t.Context(), a.NodeID, []*structs.AllocationState{{ID: a.ID, ClientStatus: status}}))
}

func status(cp *ControlPlane, id string) string { return *cp.Job("default", id).Status }

func TestAJobIsPlacedAndItsStatusFollowsItsAllocations(t *testing.T) {
	s := withNode(t, "")
	e := run(t, s, testJob("web", "batch", count(2)))
	require.Equal(t, structs.EvaluationComplete, e.Status)
	require.Empty(t, e.FailedTGAllocs)
	require.Empty(t, e.BlockedEval)
	require.Equal(t, statusRunning, status(s, "web"))
	list := wanted(s, "web")
	require.Len(t, list, 2)
	require.Equal(t, structs.GroupSummary{Starting: 2}, s.JobSummary("default", "web").Groups["g"])
	require.Equal(t, e.ID, list[0].EvalID)
	require.NotNil(t, list[0].Metrics)
	report(t, s, list[0], structs.ClientRunning)
	report(t, s, list[1], structs.ClientComplete)
	require.Equal(t, structs.GroupSummary{Running: 1, Complete: 1}, s.JobSummary("default", "web").Groups["g"])
	require.Equal(t, statusRunning, status(s, "web"))
	report(t, s, list[0], structs.ClientComplete)
	require.Equal(t, statusDead, status(s, "web"))
	require.Empty(t, wanted(s, "web"), "a completed batch job is not run again")
}

func TestAGroupOfNoneRunsNothingAndIsKept(t *testing.T) {
	for _, kind := range []string{"service", "batch"} {
		cp := withNode(t, "")
		e := run(t, cp, testJob("j", kind, count(0)))
		require.Equal(t, structs.EvaluationComplete, e.Status)
		require.Empty(t, e.FailedTGAllocs)
		require.Empty(t, cp.JobAllocations("default", "j"))
		require.Equal(t, "dead", status(cp, "j"))
		run(t, cp, testJob("j", kind, count(2)))
		require.Len(t, wanted(cp, "j"), 2)
		require.Equal(t, "running", status(cp, "j"))
		run(t, cp, testJob("j", kind, count(0)))
		require.Empty(t, wanted(cp, "j"))
	}
	cp := withNode(t, "")
	run(t, cp, testJob("j", "service", count(0)))
	cp.CollectGarbage()
	require.NotNil(t, cp.Job("default", "j"), "it was never stopped")
}

func TestVersions(t *testing.T) {
	s := withNode(t, "")
	run(t, s, testJob("web", "service"))
	first := s.Job("default", "web")
	run(t, s, testJob("web", "service"))
	require.EqualValues(t, 0, *s.Job("default", "web").Version, "an unchanged job gets no version")
	require.Equal(t, *first.JobModifyIndex, *s.Job("default", "web").JobModifyIndex)
	resp, err := s.RegisterJob(&structs.JobRegistration{Job: testJob("web", "service", user("u")), Submission: &nomad.JobSubmission{Source: "source", Format: "hcl2"}})
	require.NoError(t, err)
	require.Greater(t, resp.JobModifyIndex, *first.JobModifyIndex)
	require.Equal(t, *first.CreateIndex, *s.Job("default", "web").CreateIndex)
	require.Equal(t, "source", s.JobSubmission("default", "web", 1).Source)
	require.Nil(t, s.JobSubmission("default", "web", 0))
	for n := range 10 {
		run(t, s, testJob("web", "service", priority(n+1)))
	}
	versions := s.JobVersions("default", "web")
	require.Len(t, versions, maxVersions)
	require.EqualValues(t, 11, *versions[0].Version)
	require.EqualValues(t, 6, *versions[5].Version)
}

func TestEnforcedIndexes(t *testing.T) {
	s := withNode(t, "")
	register := func(index uint64, change ...func(*nomad.Job)) error {
		_, err := s.RegisterJob(&structs.JobRegistration{Job: testJob("web", "service", change...), EnforceIndex: true, JobModifyIndex: index})
		return err
	}
	require.ErrorContains(t, register(5), "Enforcing job modify index 5: job does not exist")
	require.NoError(t, register(0))
	err := register(0)
	require.ErrorContains(t, err, "Enforcing job modify index 0: job already exists")
	require.ErrorIs(t, err, errdefs.FailedPrecondition)
	require.ErrorContains(t, register(99), "job exists with conflicting job modify index")
	require.NoError(t, register(*s.Job("default", "web").JobModifyIndex, user("u")))
}

func TestWhatHasNoPlaceIsBlockedAndPlacedWhenTheNodeChanges(t *testing.T) {
	s := open(t, "")
	e := run(t, s, testJob("web", "service", count(2)))
	require.Equal(t, 0, e.FailedTGAllocs["g"].NodesEvaluated)
	require.Equal(t, 1, e.FailedTGAllocs["g"].CoalescedFailures)
	require.Equal(t, map[string]int{"g": 2}, e.QueuedAllocations)
	require.Equal(t, statusRunning, status(s, "web"))
	run(t, s, testJob("once", "batch"))
	require.Equal(t, statusPending, status(s, "once"), "as with Nomad: only a service runs while it waits")
	blocked := s.Evaluation(e.BlockedEval)
	require.Equal(t, structs.EvaluationBlocked, blocked.Status)
	require.Equal(t, e.ID, blocked.PreviousEval)
	require.Equal(t, 2, s.JobSummary("default", "web").Groups["g"].Queued)

	n := testNode()
	n.Drivers["mock"] = &structs.DriverInfo{Detected: true, HealthDescription: "needs grant fs"}
	registerNode(t, s, n)
	require.Equal(t, 1, s.Evaluation(e.BlockedEval).FailedTGAllocs["g"].ConstraintFiltered["missing drivers"], "the reason is kept up to date")

	registerNode(t, s, testNode())
	require.Len(t, wanted(s, "web"), 2)
	require.Equal(t, structs.EvaluationComplete, s.Evaluation(e.BlockedEval).Status)
	require.Equal(t, statusRunning, status(s, "web"))
	require.Zero(t, s.JobSummary("default", "web").Groups["g"].Queued)
}

func TestFreedRoomGoesToTheMostImportantJob(t *testing.T) {
	s := withNode(t, "")
	run(t, s, testJob("first", "service", memory(900)))
	run(t, s, testJob("low", "service", memory(900), priority(10)))
	run(t, s, testJob("high", "service", memory(900), priority(90)))
	holder := wanted(s, "first")[0]
	_, err := s.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "first"})
	require.NoError(t, err)
	require.Empty(t, wanted(s, "high"), "told to stop is not ended")
	report(t, s, holder, structs.ClientComplete)
	require.Len(t, wanted(s, "high"), 1)
	require.Empty(t, wanted(s, "low"))
	_, err = s.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "low", Purge: true})
	require.NoError(t, err)
	for _, e := range s.JobEvaluations("default", "low") {
		require.NotEqual(t, structs.EvaluationBlocked, e.Status, "a job that is gone waits for nothing")
	}
}

func TestStopStartAndPurge(t *testing.T) {
	s := withNode(t, "")
	run(t, s, testJob("b", "batch"))
	a := wanted(s, "b")[0]
	resp, err := s.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "b"})
	require.NoError(t, err)
	require.NotEmpty(t, resp.EvalID)
	require.Equal(t, structs.DesiredStop, s.Allocation(a.ID).DesiredStatus)
	require.True(t, *s.Job("default", "b").Stop)
	require.EqualValues(t, 1, *s.Job("default", "b").Version)
	require.Equal(t, statusDead, status(s, "b"))
	report(t, s, a, structs.ClientComplete)
	run(t, s, testJob("b", "batch"))
	require.Len(t, wanted(s, "b"), 1, "a job that was stopped runs again")
	require.False(t, *s.Job("default", "b").Stop)
	a = wanted(s, "b")[0]
	_, err = s.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "b", Purge: true})
	require.NoError(t, err)
	require.Nil(t, s.Job("default", "b"))
	require.Equal(t, structs.DesiredStop, s.Allocation(a.ID).DesiredStatus)
	require.NotNil(t, s.Allocation(a.ID).Job)
	report(t, s, a, structs.ClientComplete)
	s.CollectGarbage()
	require.Nil(t, s.Allocation(a.ID))
	require.Empty(t, s.data.specs)
	_, err = s.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "b", Purge: true})
	require.ErrorIs(t, err, errdefs.NotFound)
}

func TestAStoppedAllocationIsReplaced(t *testing.T) {
	s := withNode(t, "")
	run(t, s, testJob("web", "service", memory(900)))
	a := wanted(s, "web")[0]
	evalID, err := s.StopAllocation(a.ID, false)
	require.NoError(t, err)
	require.NotNil(t, s.Evaluation(evalID))
	list := wanted(s, "web")
	require.Len(t, list, 1)
	require.Equal(t, a.ID, list[0].PreviousAllocation)
	require.Equal(t, list[0].ID, s.Allocation(a.ID).NextAllocation)
	_, err = s.StopAllocation("nobody", false)
	require.ErrorIs(t, err, errdefs.NotFound)
}

func TestAStoppedAllocationOfASystemJobComesBackWithTheNextEvaluation(t *testing.T) {
	s := withNode(t, "")
	run(t, s, testJob("sys", "system"))
	a := wanted(s, "sys")[0]
	evalID, err := s.StopAllocation(a.ID, false)
	require.NoError(t, err)
	require.Equal(t, structs.EvaluationComplete, s.Evaluation(evalID).Status)
	require.Empty(t, wanted(s, "sys"))
	_, err = s.EvaluateJob("default", "sys", false)
	require.NoError(t, err)
	require.Len(t, wanted(s, "sys"), 1)
}

func TestAStopWithoutShutdownDelayIsPassedToTheNode(t *testing.T) {
	s := withNode(t, "")
	run(t, s, testJob("web", "service"))
	a := wanted(s, "web")[0]
	_, err := s.StopAllocation(a.ID, false)
	require.NoError(t, err)
	stopped := s.Allocation(a.ID)
	require.False(t, stopped.NoShutdownDelay)
	_, err = s.StopAllocation(a.ID, true)
	require.NoError(t, err)
	require.True(t, s.Allocation(a.ID).NoShutdownDelay)
	require.Greater(t, s.Allocation(a.ID).AllocModifyIndex, stopped.AllocModifyIndex, "the node is told")

	next := wanted(s, "web")[0]
	require.False(t, next.NoShutdownDelay, "a replacement has its delay")
	_, err = s.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "web", NoShutdownDelay: true})
	require.NoError(t, err)
	require.True(t, s.Allocation(next.ID).NoShutdownDelay)
	require.True(t, s.Allocation(next.ID).ServerTerminal())
}

func TestAFailedAllocationIsReplacedWhenItsTimeHasCome(t *testing.T) {
	s := withNode(t, "")
	run(t, s, testJob("web", "service", reschedule(time.Hour)))
	a := wanted(s, "web")[0]
	report(t, s, a, structs.ClientFailed)
	require.Empty(t, wanted(s, "web"))
	require.Equal(t, statusRunning, status(s, "web"))
	followup := s.Evaluation(s.Allocation(a.ID).FollowupEvalID)
	require.Equal(t, structs.EvaluationPending, followup.Status)
	require.Equal(t, "alloc-reschedule", followup.TriggeredBy)
	require.Equal(t, "created for delayed rescheduling", followup.StatusDescription)
	// Time passes.
	require.NoError(t, s.write(func(tx *tx) error {
		tx.now = followup.WaitUntil
		return tx.doDue()
	}))
	list := wanted(s, "web")
	require.Len(t, list, 1)
	require.Equal(t, a.ID, list[0].PreviousAllocation)
	require.Equal(t, structs.EvaluationComplete, s.Evaluation(followup.ID).Status)
	require.Empty(t, s.Evaluation(followup.ID).StatusDescription)
	require.Equal(t, structs.DesiredStop, s.Allocation(a.ID).DesiredStatus)
	require.Empty(t, s.Allocation(a.ID).DesiredDescription)
	require.Equal(t, statusRunning, status(s, "web"))
}

func TestTheWriterWakesForWhatIsDue(t *testing.T) {
	s := withNode(t, "")
	run(t, s, testJob("web", "service", reschedule(5*time.Second)))
	a := wanted(s, "web")[0]
	index := s.Index(TableAllocations)
	require.NoError(t, s.write(func(tx *tx) error {
		tx.now = tx.now.Add(-5 * time.Second) // so that the delay ends at once
		tx.changeAlloc(tx.allocs.get(a.ID), false, func(a *structs.Allocation) { a.ClientStatus = structs.ClientFailed })
		tx.evaluate(tx.newEval(a.Job, triggerFailure), a.Job)
		return nil
	}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(wanted(s, "web")) == 0 && ctx.Err() == nil {
		s.Wait(ctx, TableAllocations, index)
		index = s.Index(TableAllocations)
	}
	require.NoError(t, ctx.Err())
}

func TestAnEndedAllocationStaysEnded(t *testing.T) {
	s := withNode(t, "")
	run(t, s, testJob("b", "batch"))
	a := wanted(s, "b")[0]
	report(t, s, a, structs.ClientComplete)
	index := s.Index(TableAllocations)
	report(t, s, a, structs.ClientComplete)
	require.Equal(t, index, s.Index(TableAllocations), "what was reported twice counts once")
	report(t, s, a, structs.ClientRunning)
	require.Equal(t, structs.ClientComplete, s.Allocation(a.ID).ClientStatus)
	report(t, s, a, structs.ClientFailed)
	require.Equal(t, structs.ClientComplete, s.Allocation(a.ID).ClientStatus)
}

func TestSystemJobsFollowTheNode(t *testing.T) {
	s := open(t, "")
	run(t, s, testJob("sys", "system"))
	require.Equal(t, statusRunning, status(s, "sys"))
	registerNode(t, s, testNode())
	require.Len(t, wanted(s, "sys"), 1)
	evals := len(s.Evaluations())
	n := testNode()
	n.Attributes["new"] = "1"
	registerNode(t, s, n)
	require.Len(t, s.Evaluations(), evals, "an evaluation that decides nothing is not kept")
}

func TestEligibility(t *testing.T) {
	s := withNode(t, "")
	id := testNode().ID
	mark(t, s, structs.NodeIneligible)
	registerNode(t, s, testNode())
	require.Equal(t, structs.NodeIneligible, s.Node(id).Eligibility, "a registration does not change it")
	run(t, s, testJob("web", "service"))
	require.Empty(t, wanted(s, "web"))
	mark(t, s, structs.NodeEligible)
	require.Len(t, wanted(s, "web"), 1)
	_, err := s.SetEligibility(id, "maybe")
	require.ErrorIs(t, err, errdefs.InvalidArgument)
	_, err = s.SetEligibility("nobody", structs.NodeEligible)
	require.ErrorIs(t, err, errdefs.NotFound)
	require.Equal(t, "Node marked as eligible for scheduling", s.Node(id).Events[2].Message)
}

func TestANodeThatLostItsIdentityLosesWhatRanThere(t *testing.T) {
	s := withNode(t, "")
	run(t, s, testJob("web", "service", memory(900)))
	old := wanted(s, "web")[0]
	n := testNode()
	n.ID = "22222222-2222-2222-2222-222222222222"
	registerNode(t, s, n)
	require.Equal(t, structs.NodeDown, s.Node(old.NodeID).Status)
	require.Equal(t, structs.ClientLost, s.Allocation(old.ID).ClientStatus)
	list := wanted(s, "web")
	require.Len(t, list, 1)
	require.Equal(t, n.ID, list[0].NodeID)
}

func TestNodeEventsAreMergedOnceAndBounded(t *testing.T) {
	var events []structs.NodeEvent
	for i := range 2 * structs.MaxNodeEvents {
		events = append(events, structs.NodeEvent{Time: time.Unix(int64(i), 0), Message: "m"})
	}
	merged := mergeEvents(events, events)
	require.Len(t, merged, structs.MaxNodeEvents)
	require.True(t, merged[0].Time.Equal(events[structs.MaxNodeEvents].Time))
	require.Equal(t, merged, mergeEvents(merged, merged))
}

func TestEveryFaultOfAJobIsFoundAtOnce(t *testing.T) {
	s := open(t, "")
	j := &nomad.Job{
		ID: new("two words"), Type: new("cron"), Priority: new(101), Namespace: new("elsewhere"), Periodic: &nomad.PeriodicConfig{},
		Constraints: []*nomad.Constraint{{LTarget: "${attr.x}", Operand: "regexp", RTarget: "("}, {Operand: "~", LTarget: "x", RTarget: "y"}},
		TaskGroups: []*nomad.TaskGroup{
			{Name: new("g"), Count: new(-1), Tasks: []*nomad.Task{
				{Name: "t"}, {Name: "t", Driver: "d", Leader: true}, {Name: "../x", Driver: "d", Leader: true,
					Resources: &nomad.Resources{CPU: new(0), MemoryMB: new(9), MemoryMaxMB: new(5)}},
			}},
			{Name: new("g"), Count: new(0), RestartPolicy: &nomad.RestartPolicy{Mode: new("never")}},
			{Name: new("p"), Networks: []*nomad.NetworkResource{{ReservedPorts: []nomad.Port{{Label: "a", Value: 80}, {Label: "a", Value: 80}, {Label: "b", Value: 70000}}}, {Mode: "bridge", ReservedPorts: []nomad.Port{{Label: "c", Value: 81, IgnoreCollision: true}}}},
				ReschedulePolicy: &nomad.ReschedulePolicy{Attempts: new(1), Delay: new(time.Second), DelayFunction: new("linear"), Interval: new(time.Hour)}},
		},
	}
	_, err := s.RegisterJob(&structs.JobRegistration{Job: j})
	var v *ValidationError
	require.ErrorAs(t, err, &v)
	require.ErrorIs(t, err, errdefs.InvalidArgument)
	for _, fault := range []string{
		`Job ID "two words" contains a space`,
		`Invalid job type: "cron"`,
		"Job priority must be between [1, 100]",
		`nonexistent namespace "elsewhere"`,
		"periodic:",
		"constraint 1: Regular expression failed to compile",
		`constraint 2: Unknown constraint type "~"`,
		`group "g": count: Task group count can't be negative: it is -1`,
		"Job task group 2 redefines 'g' from group 1",
		`group "g": Task 2 redefines 't' from task 1`,
		`group "g": task "t": driver: Missing task driver`,
		`task "../x": name: "../x" cannot be a directory's name`,
		`resources: cpu: minimum CPU value is 1; got 0`,
		`resources: memory: minimum MemoryMB value is 10; got 9`,
		`memory_max`,
		`group "g": Only one task may be marked as leader`,
		`Unsupported restart mode: "never"`,
		`Missing tasks for group`,
		`Static port 80 already reserved by a`,
		`Port label a already in use`,
		`static: 70000 is not a port`,
		`ignore_collision is for mode "host": in mode "bridge" the port would be taken from whoever has it`,
		`Delay cannot be less than 5s (got 1s)`,
		`Invalid delay function "linear"`,
	} {
		require.ErrorContains(t, err, fault)
	}
	require.Empty(t, s.Jobs())
	for name, j := range map[string]*nomad.Job{
		"no job":    nil,
		"nil group": {ID: new("x"), TaskGroups: []*nomad.TaskGroup{nil}},
		"nil task":  {ID: new("x"), TaskGroups: []*nomad.TaskGroup{{Tasks: []*nomad.Task{nil}}}},
		"no groups": {ID: new("x")},
	} {
		faults, _ := s.ValidateJob(j)
		require.Len(t, faults, 1, name)
	}
	faults, warnings := s.ValidateJob(&nomad.Job{
		ID:          new("x"),
		Constraints: []*nomad.Constraint{nil},
		TaskGroups: []*nomad.TaskGroup{nil, {
			Volumes: map[string]*nomad.VolumeRequest{"v": nil},
			Tasks:   []*nomad.Task{nil, {Templates: []*nomad.Template{nil}, Config: map[string]any{"null": nil}}},
		}},
	})
	require.Empty(t, warnings)
	require.Equal(t, []string{
		"Constraints[0]: it is null",
		"TaskGroups[0]: it is null",
		"TaskGroups[1].Tasks[0]: it is null",
		"TaskGroups[1].Tasks[1].Templates[0]: it is null",
		`TaskGroups[1].Volumes["v"]: it is null`,
	}, faults)
	faults, warnings = s.ValidateJob(testJob("ok", "service", count(2), func(j *nomad.Job) {
		j.TaskGroups[0].Networks = []*nomad.NetworkResource{{ReservedPorts: []nomad.Port{{Label: "a", Value: 80}}}}
	}))
	require.Empty(t, faults)
	require.Equal(t, []string{`group "g": static ports on one machine: only one of 2 allocations can be placed`}, warnings)
}

func TestAJobHasABoundedNumberOfAllocations(t *testing.T) {
	s := open(t, "")
	for name, c := range map[string]struct {
		counts []int
		fits   bool
	}{
		"as many as there may be": {[]int{20_000, 30_000}, true},
		"one more":                {[]int{20_000, 30_001}, false},
		"far more":                {[]int{math.MaxInt, math.MaxInt}, false},
	} {
		t.Run(name, func(t *testing.T) {
			faults, _ := s.ValidateJob(testJob("many", "batch", func(j *nomad.Job) {
				group := *j.TaskGroups[0]
				j.TaskGroups = nil
				for i, n := range c.counts {
					g := group
					g.Name, g.Count = new(fmt.Sprint("group-", i)), &n
					j.TaskGroups = append(j.TaskGroups, &g)
				}
			}))
			if c.fits {
				require.Empty(t, faults)
				return
			}
			require.Equal(t, []string{"count: a job has at most 50000 allocations: its groups ask for more"}, faults)
		})
	}
}

func TestWaitReturnsForAChangeTheContextAndTheEnd(t *testing.T) {
	s := withNode(t, "")
	run(t, s, testJob("first", "service"))
	index := s.Index(TableJobs)
	s.Wait(t.Context(), TableJobs, index-1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Wait(ctx, TableJobs, index)
	done := make(chan struct{})
	go func() {
		s.Wait(t.Context(), TableJobs, index)
		close(done)
	}()
	run(t, s, testJob("web", "service"))
	<-done
	require.Greater(t, s.Index(TableJobs), index)
	s.Wait(t.Context(), "nothing", 0)
	require.NoError(t, s.Close())
	s.Wait(t.Context(), TableJobs, s.Index(TableJobs))
	_, err := s.RegisterJob(&structs.JobRegistration{Job: testJob("late", "service")})
	require.ErrorIs(t, err, errdefs.Unavailable)
}

// view is everything that a control plane shows.
func view(t *testing.T, cp *ControlPlane) string {
	cp.mu.RLock()
	defer cp.mu.RUnlock()
	out := map[string]any{"index": cp.index, "allocs": cp.data.allocs, "evals": cp.data.evals, "nodes": cp.data.nodes, "deployments": cp.data.deployments}
	jobs := map[string]any{}
	for key, j := range cp.data.jobs {
		jobs[key.stored()] = []any{j.Job, j.since, j.versions}
	}
	specs := map[uint64]any{}
	for index, sp := range cp.data.specs {
		specs[index] = []any{sp.Job, sp.submission}
	}
	out["jobs"], out["specs"] = jobs, specs
	b, err := json.Marshal(out)
	require.NoError(t, err)
	return string(b)
}

// history is a life with every kind of change.
func history(t *testing.T) []func(cp *ControlPlane) error {
	alloc := func(cp *ControlPlane, job string) *structs.Allocation {
		list := cp.JobAllocations("default", job)
		if len(list) == 0 {
			return &structs.Allocation{ID: "none", NodeID: testNode().ID}
		}
		return list[len(list)-1]
	}
	register := func(j *nomad.Job) func(*ControlPlane) error {
		return func(cp *ControlPlane) error {
			_, err := cp.RegisterJob(&structs.JobRegistration{Job: j, Submission: &nomad.JobSubmission{Source: "s"}})
			return err
		}
	}
	end := func(job string, status structs.ClientStatus) func(*ControlPlane) error {
		return func(cp *ControlPlane) error {
			a := alloc(cp, job)
			return cp.ForNode().UpdateAllocations(t.Context(), a.NodeID, []*structs.AllocationState{{ID: a.ID, ClientStatus: status}})
		}
	}
	deployment := func(change func(cp *ControlPlane, id string) error) func(*ControlPlane) error {
		return func(cp *ControlPlane) error {
			list := cp.JobDeployments("default", "web")
			if len(list) == 0 || !list[0].Active() {
				return nil
			}
			return change(cp, list[0].ID)
		}
	}
	return []func(cp *ControlPlane) error{
		func(cp *ControlPlane) error { _, err := cp.ForNode().Register(t.Context(), testNode()); return err },
		register(testJob("web", "service", count(2), reschedule(time.Hour))),
		register(testJob("big", "service", memory(5000))),
		register(testJob("web", "service", count(2), user("u"))),
		end("web", structs.ClientRunning),
		func(cp *ControlPlane) error {
			a := alloc(cp, "web")
			return cp.ForNode().UpdateAllocations(t.Context(), a.NodeID, []*structs.AllocationState{decided(a, true)})
		},
		deployment(func(cp *ControlPlane, id string) error { _, err := cp.PauseDeployment(id, true); return err }),
		deployment(func(cp *ControlPlane, id string) error { _, err := cp.PauseDeployment(id, false); return err }),
		end("web", structs.ClientFailed),
		deployment(func(cp *ControlPlane, id string) error { _, err := cp.FailDeployment(id); return err }),
		func(cp *ControlPlane) error {
			_, err := cp.StopAllocation(alloc(cp, "web").ID, false)
			return ignoreNotFound(err)
		},
		func(cp *ControlPlane) error {
			_, err := cp.SetEligibility(testNode().ID, structs.NodeIneligible)
			return ignoreNotFound(err)
		},
		func(cp *ControlPlane) error {
			_, err := cp.SetEligibility(testNode().ID, structs.NodeEligible)
			return ignoreNotFound(err)
		},
		func(cp *ControlPlane) error {
			_, err := cp.SetDrain(&structs.DrainRequest{NodeID: testNode().ID, Drain: &structs.Drain{Deadline: time.Hour}})
			return ignoreNotFound(err)
		},
		func(cp *ControlPlane) error {
			_, err := cp.SetDrain(&structs.DrainRequest{NodeID: testNode().ID, MarkEligible: true})
			return ignoreNotFound(err)
		},
		register(testJob("b", "batch")),
		end("b", structs.ClientComplete),
		func(cp *ControlPlane) error {
			_, err := cp.EvaluateJob("default", "web", false)
			return ignoreNotFound(err)
		},
		func(cp *ControlPlane) error {
			_, err := cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "big", Purge: true})
			return ignoreNotFound(err)
		},
		func(cp *ControlPlane) error {
			_, err := cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "web"})
			return ignoreNotFound(err)
		},
		func(cp *ControlPlane) error { cp.CollectGarbage(); return nil },
	}
}

func ignoreNotFound(err error) error {
	if errors.Is(err, errdefs.NotFound) {
		return nil
	}
	return err
}

func TestWhatWasAcknowledgedIsThereAfterAKillAtAnyPoint(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "server.db"))
	for i, step := range history(t) {
		require.NoError(t, step(s), "step %d", i)
		// A copy of the file is what a kill -9 at this point leaves.
		content, err := os.ReadFile(filepath.Join(dir, "server.db"))
		require.NoError(t, err)
		copied := filepath.Join(t.TempDir(), "server.db")
		require.NoError(t, os.WriteFile(copied, content, 0o600))
		again := open(t, copied)
		require.JSONEq(t, view(t, s), view(t, again), "step %d", i)
		for _, table := range []string{TableJobs, TableAllocations, TableEvaluations, TableNodes} {
			require.GreaterOrEqual(t, again.Index(table), s.Index(table), "an index never goes backwards")
		}
		require.NoError(t, again.Close())
	}
}

// failingFile fails its n-th write and all later ones.
type failingFile struct {
	file
	n, writes int
}

var errDisk = errors.New("no space left on device")

func (f *failingFile) Write(ops ...boltfile.Op) error {
	if f.writes++; f.writes >= f.n {
		return errDisk
	}
	return f.file.Write(ops...)
}

func TestAChangeThatCannotBeStoredHasNotHappened(t *testing.T) {
	for n := 1; ; n++ {
		path := filepath.Join(t.TempDir(), "server.db")
		s := open(t, path)
		failing := &failingFile{file: s.file, n: n}
		require.NoError(t, s.write(func(tx *tx) error { tx.cp.file = failing; return nil }))
		before := view(t, s)
		failed := false
		for i, step := range history(t) {
			writes := failing.writes
			err := step(s)
			if failing.writes >= n && failing.writes > writes {
				failed = true
				require.Equal(t, before, view(t, s), "n=%d step %d", n, i)
				if err != nil {
					require.ErrorIs(t, err, errdefs.Internal)
					require.True(t, errdefs.IsRecoverable(err))
				}
				break
			}
			require.NoError(t, err)
			before = view(t, s)
		}
		require.NoError(t, s.Close())
		again := open(t, path)
		require.JSONEq(t, before, view(t, again), "n=%d", n)
		require.NoError(t, again.Close())
		if !failed {
			require.Greater(t, n, 10)
			return
		}
	}
}

func TestOneCallersPanicIsNotAnothers(t *testing.T) {
	s := withNode(t, "")
	good := &operation{change: func(tx *tx) error { tx.touched[TableJobs] = tx.at(); return nil }, done: make(chan error, 1)}
	bad := &operation{change: func(*tx) error { panic("ouch") }, done: make(chan error, 1)}
	s.queueMu.Lock()
	s.queue = append(s.queue, bad, good)
	s.queueMu.Unlock()
	s.wake.Set()
	require.NoError(t, <-good.done)
	require.ErrorContains(t, <-bad.done, "ouch")
}

func TestACompletedAllocationThatCountsIsNotGarbage(t *testing.T) {
	s := withNode(t, "")
	run(t, s, testJob("b", "batch", count(2)))
	done := wanted(s, "b")[0]
	report(t, s, done, structs.ClientComplete)
	s.CollectGarbage()
	require.NotNil(t, s.Allocation(done.ID), "without it the job would run it again")
	_, err := s.EvaluateJob("default", "b", false)
	require.NoError(t, err)
	require.Len(t, s.JobAllocations("default", "b"), 2)
}

func TestAnEndedAllocationIsNotGarbageWhileItsSuccessorWaitsForItsPredecessor(t *testing.T) {
	s := withNode(t, "")
	var versions []*structs.Allocation
	for i := range 3 {
		run(t, s, testJob("web", "service", memory(900), func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].User = fmt.Sprint(i) }))
		versions = append(versions, wanted(s, "web")[0])
	}
	first, second, third := versions[0], versions[1], versions[2]
	require.Equal(t, []string{first.ID, second.ID}, []string{second.PreviousAllocation, third.PreviousAllocation})
	report(t, s, second, structs.ClientComplete)
	s.CollectGarbage()
	require.NotNil(t, s.Allocation(second.ID), "it leads the third to the first")
	report(t, s, first, structs.ClientComplete)
	s.CollectGarbage()
	require.Nil(t, s.Allocation(first.ID))
	require.Nil(t, s.Allocation(second.ID))
	require.NotNil(t, s.Allocation(third.ID))
}

func TestConcurrentUseIsSafeAndNothingIsLost(t *testing.T) {
	s := withNode(t, filepath.Join(t.TempDir(), "server.db"))
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for range 5 {
				id := string(rune('a' + w))
				if _, err := s.RegisterJob(&structs.JobRegistration{Job: testJob(id, "service")}); err != nil {
					t.Error(err)
				}
				news, err := s.ForNode().Allocations(t.Context(), testNode().ID, 0)
				if err != nil {
					t.Error(err)
					return
				}
				for _, a := range news.Changed {
					if err := s.ForNode().UpdateAllocations(t.Context(), a.NodeID, []*structs.AllocationState{{ID: a.ID, ClientStatus: structs.ClientRunning}}); err != nil {
						t.Error(err)
					}
				}
				s.JobSummary("default", id)
				s.Evaluations()
				if _, err := s.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: id, Purge: true}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Empty(t, s.Jobs())
	for _, a := range s.Allocations() {
		require.Equal(t, structs.DesiredStop, a.DesiredStatus)
	}
}
