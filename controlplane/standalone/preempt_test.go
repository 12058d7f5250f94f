package standalone

import (
	"path/filepath"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// configure changes the scheduler's configuration.
func configure(t *testing.T, cp *ControlPlane, change func(*nomad.SchedulerConfiguration)) {
	t.Helper()
	c := *cp.SchedulerConfiguration()
	change(&c)
	updated, err := cp.SetSchedulerConfiguration(c, nil)
	require.NoError(t, err)
	require.True(t, updated)
}

func servicesPreempt(c *nomad.SchedulerConfiguration) {
	c.PreemptionConfig.ServiceSchedulerEnabled = true
}

// evaluations are why a job was evaluated, and what became of it, oldest first.
func evaluations(cp *ControlPlane, id string) (list []string) {
	for _, e := range cp.JobEvaluations("default", id) {
		list = append([]string{e.TriggeredBy + " " + string(e.Status)}, list...)
	}
	return list
}

func TestAPreemptedJobWaitsForRoomAndComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cp.db")
	cp := withNode(t, path)
	run(t, cp, testJob("low", "service", memory(900), priority(20)))
	low := wanted(cp, "low")[0]
	report(t, cp, low, structs.ClientRunning)
	e := run(t, cp, testJob("high", "service", memory(500), priority(60)))
	require.NotEmpty(t, e.BlockedEval, "services preempt nothing at first")
	configure(t, cp, servicesPreempt)
	high := wanted(cp, "high")[0]
	require.Equal(t, []string{low.ID}, high.PreemptedAllocations)
	require.Equal(t, structs.EvaluationComplete, cp.Evaluation(e.BlockedEval).Status)

	require.NoError(t, cp.Close())
	cp = open(t, path)
	require.True(t, cp.SchedulerConfiguration().PreemptionConfig.ServiceSchedulerEnabled, "it is stored")
	low = cp.Allocation(low.ID)
	require.Equal(t, structs.DesiredEvict, low.DesiredStatus)
	require.Equal(t, "Preempted by alloc ID "+high.ID, low.DesiredDescription)
	require.Equal(t, high.ID, low.PreemptedByAllocation)
	require.ElementsMatch(t, []string{"job-register complete", "preemption complete", "queued-allocs blocked"}, evaluations(cp, "low"))
	require.Empty(t, wanted(cp, "low"))

	report(t, cp, low, structs.ClientComplete)
	require.Equal(t, statusRunning, status(cp, "low"))
	require.Empty(t, wanted(cp, "low"), "there is not enough room yet")
	report(t, cp, high, structs.ClientRunning)
	_, err := cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "high"})
	require.NoError(t, err)
	require.Empty(t, wanted(cp, "low"), "nor before it has ended")
	report(t, cp, high, structs.ClientComplete)
	require.Len(t, wanted(cp, "low"), 1)
	require.Empty(t, wanted(cp, "low")[0].PreemptedAllocations)
}

// TestAnOldVersionComesBackThoughTheNewOneLacksRoom: what a deployment is told to lack may be
// the lack of another version than the one that finds room.
func TestAnOldVersionComesBackThoughTheNewOneLacksRoom(t *testing.T) {
	cp := withNode(t, "")
	canary := func(j *nomad.Job) {
		j.TaskGroups[0].Update = &nomad.UpdateStrategy{MaxParallel: new(1), Canary: new(1)}
	}
	run(t, cp, testJob("low", "service", memory(400), priority(20), canary))
	old := wanted(cp, "low")[0]
	report(t, cp, old, structs.ClientRunning)
	run(t, cp, testJob("low", "service", memory(990), priority(20), canary))
	require.Len(t, wanted(cp, "low"), 1, "there is no room for the canary")

	configure(t, cp, servicesPreempt)
	run(t, cp, testJob("high", "service", memory(950), priority(60)))
	high := wanted(cp, "high")[0]
	report(t, cp, old, structs.ClientComplete)
	run(t, cp, testJob("little", "service", memory(40), priority(60)))
	require.Empty(t, wanted(cp, "low"))
	_, err := cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "high"})
	require.NoError(t, err)
	report(t, cp, high, structs.ClientComplete)
	back := wanted(cp, "low")
	require.Len(t, back, 1)
	require.Equal(t, old.Job.Version, back[0].Job.Version)
}

func TestSystemJobsPreemptAtFirst(t *testing.T) {
	cp := withNode(t, "")
	run(t, cp, testJob("low", "batch", memory(900), priority(20)))
	e := run(t, cp, testJob("sys", "system", memory(500), priority(60)))
	require.Equal(t, []string{cp.JobAllocations("default", "low")[0].ID}, e.PlanAnnotations.PreemptedAllocs)
	require.Equal(t, uint64(1), e.PlanAnnotations.DesiredTGUpdates["g"].Preemptions)
	require.Len(t, wanted(cp, "sys"), 1)
}

func TestWhoLeadsToWhatStillRunsIsKept(t *testing.T) {
	cp := withNode(t, "")
	configure(t, cp, servicesPreempt)
	run(t, cp, testJob("low", "service", memory(900), priority(20)))
	low := wanted(cp, "low")[0]
	report(t, cp, low, structs.ClientRunning)
	run(t, cp, testJob("mid", "service", memory(800), priority(50)))
	mid := wanted(cp, "mid")[0]
	run(t, cp, testJob("high", "service", memory(900), priority(90)))
	require.Equal(t, []string{mid.ID}, wanted(cp, "high")[0].PreemptedAllocations)
	_, err := cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "mid", Purge: true})
	require.NoError(t, err)
	report(t, cp, mid, structs.ClientComplete) // it has never run

	cp.CollectGarbage()
	require.NotNil(t, cp.Allocation(mid.ID), "it leads from the one that waits to the one that runs")
	run(t, cp, testJob("little", "service", memory(200), priority(90)))
	require.Empty(t, wanted(cp, "little"), "nothing is promised twice")
	report(t, cp, low, structs.ClientComplete)
	cp.CollectGarbage()
	require.Nil(t, cp.Allocation(mid.ID))
	require.Empty(t, wanted(cp, "little"))
}

func TestNothingIsDecidedWhileEvaluationsArePaused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cp.db")
	cp := withNode(t, path)
	run(t, cp, testJob("gone", "service"))
	run(t, cp, testJob("stays", "service", count(9)))
	configure(t, cp, func(c *nomad.SchedulerConfiguration) { c.PauseEvalBroker = true })
	e := run(t, cp, testJob("comes", "service", memory(400), priority(70)))
	require.Equal(t, structs.EvaluationPending, e.Status)
	_, err := cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "gone", Purge: true})
	require.NoError(t, err)
	registerNode(t, cp, testNode())
	require.Len(t, wanted(cp, "gone"), 1)
	require.Empty(t, wanted(cp, "comes"))

	require.NoError(t, cp.Close())
	cp = open(t, path)
	require.Positive(t, cp.untilDue(), "what is paused is not due")
	configure(t, cp, func(c *nomad.SchedulerConfiguration) { c.PauseEvalBroker = false; servicesPreempt(c) })
	require.Empty(t, wanted(cp, "gone"), "the job was purged")
	require.Len(t, wanted(cp, "comes"), 1)
	require.Equal(t, structs.EvaluationComplete, cp.Evaluation(e.ID).Status)
}

func TestMoreMemoryIsGivenOnlyWhereThatIsConfigured(t *testing.T) {
	cp := withNode(t, "")
	most := func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMaxMB = new(300) }
	answer, err := cp.RegisterJob(&structs.JobRegistration{Job: testJob("a", "service", most)})
	require.NoError(t, err)
	require.Equal(t, []string{`Memory oversubscription is not enabled; Task "g.t" memory_max value will be ignored. Update the Scheduler Configuration to allow oversubscription.`}, answer.Warnings)
	require.Zero(t, wanted(cp, "a")[0].Resources.Tasks["t"].MemoryMaxMB)
	configure(t, cp, func(c *nomad.SchedulerConfiguration) { c.MemoryOversubscriptionEnabled = true })
	answer, err = cp.RegisterJob(&structs.JobRegistration{Job: testJob("b", "service", most)})
	require.NoError(t, err)
	require.Empty(t, answer.Warnings)
	require.Equal(t, 300, wanted(cp, "b")[0].Resources.Tasks["t"].MemoryMaxMB)
	register(t, cp, testJob("c", "service", func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMaxMB = new(structs.MemoryUnlimited) }))
	require.Equal(t, structs.MemoryUnlimited, wanted(cp, "c")[0].Resources.Tasks["t"].MemoryMaxMB)
	faults, _ := cp.ValidateJob(testJob("d", "service", func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMaxMB = new(-2) }))
	require.Len(t, faults, 1)
}
