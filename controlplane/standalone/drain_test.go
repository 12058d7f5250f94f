package standalone

import (
	"path/filepath"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

func mark(t *testing.T, cp *ControlPlane, eligibility string) *structs.NodeChange {
	t.Helper()
	out, err := cp.SetEligibility(testNode().ID, eligibility)
	require.NoError(t, err)
	return out
}

func drain(t *testing.T, cp *ControlPlane, d *structs.Drain) *structs.NodeChange {
	t.Helper()
	out, err := cp.SetDrain(&structs.DrainRequest{NodeID: testNode().ID, Drain: d, Meta: map[string]string{"why": "kernel"}})
	require.NoError(t, err)
	return out
}

// healthy reports allocations as running and healthy.
func healthy(t *testing.T, cp *ControlPlane, list ...*structs.Allocation) {
	t.Helper()
	for _, a := range list {
		require.NoError(t, cp.ForNode().UpdateAllocations(t.Context(), a.NodeID, []*structs.AllocationState{{
			ID: a.ID, ClientStatus: structs.ClientRunning, DeploymentStatus: &structs.DeploymentStatus{Healthy: new(true), DeploymentID: a.DeploymentID},
		}}))
	}
}

// at has the control plane do what is due at a time.
func at(t *testing.T, cp *ControlPlane, now time.Time) {
	t.Helper()
	require.NoError(t, cp.write(func(tx *tx) error { tx.now = now; return nil }))
}

func parallel(n int) func(*nomad.Job) {
	return func(j *nomad.Job) { j.TaskGroups[0].Migrate = &nomad.MigrateStrategy{MaxParallel: &n} }
}

func node(cp *ControlPlane) *structs.Node { return cp.Node(testNode().ID) }

// messages are those of the node's events about drains and eligibility.
func messages(cp *ControlPlane) (list []string) {
	for _, e := range node(cp).Events {
		list = append(list, e.Subsystem+": "+e.Message)
	}
	return list
}

func TestADrainTakesServicesInBatchesThenSystemJobs(t *testing.T) {
	cp := withNode(t, "")
	run(t, cp, testJob("one", "service"))
	run(t, cp, testJob("three", "service", count(3), parallel(2)))
	run(t, cp, testJob("once", "batch"))
	run(t, cp, testJob("everywhere", "system"))
	for _, job := range []string{"one", "three", "once", "everywhere"} {
		healthy(t, cp, wanted(cp, job)...)
	}

	drain(t, cp, &structs.Drain{Deadline: time.Hour})
	n := node(cp)
	require.Equal(t, structs.NodeIneligible, n.Eligibility)
	require.Equal(t, n.Drain.StartedAt.Add(time.Hour), n.Drain.ForceDeadline)
	require.Equal(t, structs.DrainDraining, n.LastDrain.Status)
	require.Equal(t, map[string]string{"why": "kernel"}, n.LastDrain.Meta)
	require.Empty(t, wanted(cp, "one"))
	require.Len(t, wanted(cp, "three"), 1, "two of three may leave at once, and there is nowhere else")
	require.Len(t, wanted(cp, "once"), 1, "it may go on to its end")
	require.Len(t, wanted(cp, "everywhere"), 1)
	require.Equal(t, statusRunning, status(cp, "one"))
	a := cp.JobAllocations("default", "one")[0]
	require.True(t, a.Migrate)
	require.Equal(t, "alloc is being migrated", a.DesiredDescription)
	evals := map[string]structs.EvaluationStatus{}
	for _, e := range cp.JobEvaluations("default", "one") {
		evals[e.TriggeredBy] = e.Status
	}
	require.Equal(t, structs.EvaluationComplete, evals[triggerDrain])
	require.Equal(t, structs.EvaluationBlocked, evals[triggerQueued])

	run(t, cp, testJob("late", "service"))
	require.Empty(t, wanted(cp, "late"), "nothing new comes")

	for _, job := range []string{"one", "three"} {
		for _, a := range cp.JobAllocations("default", job) {
			if a.ServerTerminal() {
				report(t, cp, a, structs.ClientComplete)
			}
		}
	}
	require.Len(t, wanted(cp, "three"), 1, "it stays until the deadline")
	_, err := cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "three"})
	require.NoError(t, err)
	for _, a := range cp.JobAllocations("default", "three") {
		report(t, cp, a, structs.ClientComplete)
	}
	require.NotNil(t, node(cp).Drain, "the batch job runs")
	require.Len(t, wanted(cp, "everywhere"), 1, "system jobs are the last")
	report(t, cp, wanted(cp, "once")[0], structs.ClientComplete)

	n = node(cp)
	require.Nil(t, n.Drain)
	require.Equal(t, structs.DrainComplete, n.LastDrain.Status)
	require.Equal(t, structs.NodeIneligible, n.Eligibility)
	require.Empty(t, wanted(cp, "everywhere"))
	require.Equal(t, "alloc not needed as node is tainted", cp.JobAllocations("default", "everywhere")[0].DesiredDescription)
	require.Equal(t, []string{"Cluster: Node registered", "Drain: Node drain strategy set", "Drain: Node drain complete"}, messages(cp))

	out := mark(t, cp, structs.NodeEligible)
	require.Len(t, out.EvalIDs, 1, "the system job's")
	for _, job := range []string{"one", "late", "everywhere"} {
		require.Len(t, wanted(cp, job), 1, job)
	}
	require.Empty(t, wanted(cp, "once"))
}

func TestADrainForcesWhatIsLeftAtItsDeadline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	cp := withNode(t, path)
	run(t, cp, testJob("three", "service", count(3)))
	run(t, cp, testJob("once", "batch"))
	run(t, cp, testJob("everywhere", "system"))
	healthy(t, cp, wanted(cp, "three")[0])
	drain(t, cp, &structs.Drain{Deadline: time.Hour, IgnoreSystemJobs: true})
	require.Len(t, wanted(cp, "three"), 3, "the health of two is not known: none can be spared")
	healthy(t, cp, wanted(cp, "three")...)
	require.Len(t, wanted(cp, "three"), 2)
	deadline := node(cp).Drain.ForceDeadline
	require.NoError(t, cp.Close())

	cp = open(t, path)
	require.Less(t, cp.untilDue(), time.Hour+time.Second)
	at(t, cp, deadline.Add(-time.Second))
	require.Len(t, wanted(cp, "three"), 2)
	registerNode(t, cp, testNode())
	require.NotNil(t, node(cp).Drain, "a registration does not end it")
	at(t, cp, deadline)
	require.Empty(t, wanted(cp, "three"))
	require.Empty(t, wanted(cp, "once"))
	require.Len(t, wanted(cp, "everywhere"), 1, "it was to be left")
	require.Nil(t, node(cp).Drain)
	events := node(cp).Events
	require.Equal(t, map[string]string{"deadline_reached": "true"}, events[len(events)-1].Details)
	mark(t, cp, structs.NodeEligible)
	require.Len(t, wanted(cp, "once"), 1, "it had not ended")
	require.Len(t, wanted(cp, "three"), 3)
}

func TestADrainThatIsDueWhileTheAgentIsAwayIsDoneWhenItIsBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	cp := withNode(t, path)
	run(t, cp, testJob("three", "service", count(3)))
	drain(t, cp, &structs.Drain{Deadline: 50 * time.Millisecond})
	require.NoError(t, cp.Close())
	cp = open(t, path)
	require.Eventually(t, func() bool { return node(cp).Drain == nil }, 10*time.Second, time.Millisecond)
	require.Empty(t, wanted(cp, "three"))
}

func TestAForcedDrainStopsAllAtOnce(t *testing.T) {
	cp := withNode(t, "")
	run(t, cp, testJob("three", "service", count(3)))
	run(t, cp, testJob("everywhere", "system"))
	drain(t, cp, &structs.Drain{Deadline: -time.Second})
	require.Nil(t, node(cp).Drain)
	require.Equal(t, structs.DrainComplete, node(cp).LastDrain.Status)
	require.Empty(t, wanted(cp, "three"))
	require.Empty(t, wanted(cp, "everywhere"))
}

func TestADrainIsChangedAndEnded(t *testing.T) {
	cp := withNode(t, "")
	run(t, cp, testJob("three", "service", count(3)))
	drain(t, cp, &structs.Drain{})
	first := node(cp).Drain
	require.Zero(t, first.ForceDeadline)
	_, has := cp.drainDeadline()
	require.False(t, has)
	drain(t, cp, &structs.Drain{Deadline: time.Minute})
	require.Equal(t, first.StartedAt, node(cp).Drain.StartedAt)
	_, err := cp.SetEligibility(testNode().ID, structs.NodeEligible)
	require.ErrorIs(t, err, errdefs.FailedPrecondition)

	_, err = cp.SetDrain(&structs.DrainRequest{NodeID: testNode().ID})
	require.NoError(t, err)
	require.Equal(t, structs.DrainCanceled, node(cp).LastDrain.Status)
	require.Equal(t, map[string]string{"why": "kernel"}, node(cp).LastDrain.Meta)
	require.Equal(t, structs.NodeIneligible, node(cp).Eligibility)
	require.Len(t, wanted(cp, "three"), 3)
	index := node(cp).ModifyIndex
	_, err = cp.SetDrain(&structs.DrainRequest{NodeID: testNode().ID})
	require.NoError(t, err)
	require.Equal(t, index, node(cp).ModifyIndex, "there was none to end")
	_, err = cp.SetDrain(&structs.DrainRequest{NodeID: testNode().ID, MarkEligible: true})
	require.NoError(t, err)
	require.Equal(t, structs.NodeEligible, node(cp).Eligibility)
	require.Equal(t, []string{
		"Cluster: Node registered", "Drain: Node drain strategy set", "Drain: Node drain strategy updated",
		"Drain: Node drain disabled", "Cluster: Node marked as eligible for scheduling",
	}, messages(cp))
	_, err = cp.SetDrain(&structs.DrainRequest{NodeID: "nobody"})
	require.ErrorIs(t, err, errdefs.NotFound)
}
