package standalone

import (
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func plan(t *testing.T, cp *ControlPlane, job *nomad.Job) *structs.JobPlan {
	t.Helper()
	p, err := cp.PlanJob(job)
	require.NoError(t, err)
	return p
}

func desired(p *structs.JobPlan) structs.DesiredUpdates {
	return *p.Evaluation.PlanAnnotations.DesiredTGUpdates["g"]
}

func TestAPlanTellsWhatWouldHappenAndDoesNothing(t *testing.T) {
	cp := withNode(t, "")
	before := cp.Index(TableJobs)

	first := plan(t, cp, testJob("work", "batch", count(2)))
	require.Nil(t, first.Old)
	require.Zero(t, first.JobModifyIndex)
	require.Equal(t, structs.DesiredUpdates{Place: 2}, desired(first))
	require.Equal(t, before, cp.Index(TableJobs))
	require.Empty(t, cp.Jobs())
	require.Empty(t, cp.Evaluations())

	register(t, cp, testJob("work", "batch", count(2), bounds(1, 5)))
	index := *cp.Job("default", "work").JobModifyIndex
	same := plan(t, cp, testJob("work", "batch", count(2), bounds(1, 5)))
	require.Equal(t, index, same.JobModifyIndex)
	require.Equal(t, structs.DesiredUpdates{Ignore: 2}, desired(same))

	other := plan(t, cp, testJob("work", "batch", count(3), user("u")))
	require.Equal(t, structs.DesiredUpdates{Place: 1, DestructiveUpdate: 2}, desired(other))
	require.Equal(t, map[string][]string{"g": {"t"}}, other.Destroyed)
	fewer := plan(t, cp, testJob("work", "batch", count(1), bounds(1, 5)))
	require.Equal(t, uint64(1), desired(fewer).Stop)
	require.Empty(t, fewer.Destroyed)

	large := plan(t, cp, testJob("large", "batch", memory(100_000)))
	require.Equal(t, 1, large.Evaluation.FailedTGAllocs["g"].NodesExhausted)
	require.Equal(t, map[string]int{"g": 1}, large.Evaluation.QueuedAllocations)
	require.Equal(t, structs.DesiredUpdates{Place: 1}, desired(large), "what has no place is wanted all the same")
	nowhere := plan(t, cp, testJob("nowhere", "system", func(j *nomad.Job) {
		j.Constraints = []*nomad.Constraint{{LTarget: "${attr.kernel.name}", Operand: "=", RTarget: "none"}}
	}))
	require.Zero(t, desired(nowhere), "a system job wants none on a node that may not have it")
	parent := plan(t, cp, testJob("parent", "batch", count(2), func(j *nomad.Job) { j.ParameterizedJob = &nomad.ParameterizedJobConfig{} }))
	require.Equal(t, structs.DesiredUpdates{Place: 2}, desired(parent), "what one child would get")

	_, err := cp.PlanJob(testJob("", "batch"))
	require.ErrorContains(t, err, "Missing job ID")
	require.Len(t, cp.Jobs(), 1)
	require.Equal(t, index, *cp.Job("default", "work").JobModifyIndex)
	require.Len(t, cp.Evaluations(), 1)
	require.Len(t, cp.JobAllocations("default", "work"), 2)
}

func TestAPlanNamesWhatItWouldPreempt(t *testing.T) {
	cp := withNode(t, "")
	low := func(j *nomad.Job) { j.Priority = new(10) }
	high := func(j *nomad.Job) { j.Priority = new(90) }
	register(t, cp, testJob("low", "service", low, memory(900)))
	p := plan(t, cp, testJob("high", "system", high, memory(900)))
	require.Len(t, p.Preempted, 1)
	require.Equal(t, "low", p.Preempted[0].JobID)
	require.Equal(t, structs.DesiredRun, cp.JobAllocations("default", "low")[0].DesiredStatus)
}

// TestPlansAndChangesAtOnce plans while others register: a plan sees one state, and
// nothing of it is stored.
func TestPlansAndChangesAtOnce(t *testing.T) {
	cp := withNode(t, "")
	done := make(chan error, 4)
	for range 2 {
		go func() {
			var err error
			for i := 0; i < 50 && err == nil; i++ {
				_, err = cp.PlanJob(testJob("a", "batch", count(2)))
			}
			done <- err
		}()
		go func() {
			var err error
			for i := 0; i < 50 && err == nil; i++ {
				_, err = cp.RegisterJob(&structs.JobRegistration{Job: testJob("b", "batch", memory(10+i))})
			}
			done <- err
		}()
	}
	for range 4 {
		require.NoError(t, <-done)
	}
	require.Len(t, cp.Jobs(), 1)
}

func TestAJobThatAsksForTheSameIsNoNewVersion(t *testing.T) {
	cp := withNode(t, "")
	full := func(j *nomad.Job) {
		bounds(1, 5)(j)
		j.TaskGroups[0].Scaling.Policy = map[string]any{}
		j.AddTaskGroup(nomad.NewTaskGroup("h", 0).AddTask(&nomad.Task{Name: "u", Driver: "mock"}))
	}
	register(t, cp, testJob("web", "service", full))
	for name, change := range map[string]func(*nomad.Job){
		"as it was":           func(*nomad.Job) {},
		"nothing for empty":   func(j *nomad.Job) { j.TaskGroups[0].Scaling.Policy, j.Meta = nil, map[string]string{} },
		"in another order":    func(j *nomad.Job) { j.TaskGroups[0], j.TaskGroups[1] = j.TaskGroups[1], j.TaskGroups[0] },
		"said at both places": func(j *nomad.Job) { j.Update = &nomad.UpdateStrategy{} },
	} {
		t.Run(name, func(t *testing.T) {
			register(t, cp, testJob("web", "service", full, change))
			require.Equal(t, []uint64{0}, versionsOf(cp, "web"))
		})
	}
}
