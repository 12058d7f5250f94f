package standalone

import (
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

func TestARegistrationKeepsCountsAndResourcesWhereItAsksFor(t *testing.T) {
	grown := func(j *nomad.Job) {
		count, more := 3, *j.TaskGroups[0]
		more.Name = new("new")
		j.TaskGroups[0].Count = &count
		*j.TaskGroups[0].Tasks[0].Resources.MemoryMB *= 2
		j.AddTaskGroup(&more)
	}
	for name, c := range map[string]struct {
		req           structs.JobRegistration
		stopped       bool
		count, memory int
	}{
		"neither":          {count: 3, memory: 200},
		"counts":           {req: structs.JobRegistration{PreserveCounts: true}, count: 1, memory: 200},
		"resources":        {req: structs.JobRegistration{PreserveResources: true}, count: 3, memory: 100},
		"of a stopped job": {req: structs.JobRegistration{PreserveCounts: true, PreserveResources: true}, stopped: true, count: 1, memory: 100},
		"both":             {req: structs.JobRegistration{PreserveCounts: true, PreserveResources: true}, count: 1, memory: 100},
	} {
		t.Run(name, func(t *testing.T) {
			cp := withNode(t, "")
			register(t, cp, testJob("web", "batch", memory(100)))
			if c.stopped {
				_, err := cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "web"})
				require.NoError(t, err)
			}
			c.req.Job = testJob("web", "batch", memory(100), grown)
			_, err := cp.RegisterJob(&c.req)
			require.NoError(t, err)
			job := cp.Job("default", "web")
			require.Equal(t, c.count, *job.TaskGroups[0].Count)
			require.Equal(t, c.memory, *job.TaskGroups[0].Tasks[0].Resources.MemoryMB)
			require.Equal(t, 1, *job.TaskGroups[1].Count, "a group that was not there has what the job says")
		})
	}
}

func TestWhatIsKeptHasToFitTheNewJob(t *testing.T) {
	cp := withNode(t, "")
	register(t, cp, testJob("web", "batch", bounds(1, 5), func(j *nomad.Job) { j.TaskGroups[0].Count = new(4) }))
	_, err := cp.RegisterJob(&structs.JobRegistration{Job: testJob("web", "batch", bounds(1, 2)), PreserveCounts: true})
	require.ErrorIs(t, err, errdefs.InvalidArgument)
	require.ErrorContains(t, err, "scaling")
	require.EqualValues(t, 0, *cp.Job("default", "web").Version)
}

// TestWhatIsKeptIsCheckedWhileOthersWrite: the job changes as often while it is checked.
func TestWhatIsKeptIsCheckedWhileOthersWrite(t *testing.T) {
	for name, c := range map[string]struct {
		changes, count int
		refused        string
	}{
		"nobody changes it": {changes: 0, count: 2},
		"others do":         {changes: 3, count: 5},
		"all the time":      {changes: maxPreserves, count: 12, refused: "changed all the time"},
	} {
		t.Run(name, func(t *testing.T) {
			var cp *ControlPlane
			left := 0
			cp, err := Open(Options{GroupFaults: func(g *nomad.TaskGroup) []string {
				if left > 0 && structs.Deref(g.Count) != 1 {
					left--
					_, err := cp.ScaleJob("default", "web", &nomad.ScalingRequest{
						Target: map[string]string{"Group": "g"}, Count: new(int64(*g.Count) + 1),
					})
					require.NoError(t, err)
				}
				return nil
			}})
			require.NoError(t, err)
			defer func() { require.NoError(t, cp.Close()) }()
			register(t, cp, testJob("web", "batch", count(2)))
			left = c.changes
			_, err = cp.RegisterJob(&structs.JobRegistration{Job: testJob("web", "batch", user("u")), PreserveCounts: true})
			job := cp.Job("default", "web")
			require.Equal(t, c.count, *job.TaskGroups[0].Count)
			if c.refused != "" {
				require.ErrorIs(t, err, errdefs.FailedPrecondition)
				require.ErrorContains(t, err, c.refused)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "u", job.TaskGroups[0].Tasks[0].User)
		})
	}
}

func TestAnEvaluationHasThePriorityThatItWasAskedFor(t *testing.T) {
	cp := withNode(t, "")
	for priority, want := range map[int]int{0: 50, 1: 1, 100: 100} {
		change, err := cp.RegisterJob(&structs.JobRegistration{Job: testJob("web", "batch"), EvalPriority: priority})
		require.NoError(t, err)
		require.Equal(t, want, cp.Evaluation(change.EvalID).Priority)
		change, err = cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "web", EvalPriority: priority})
		require.NoError(t, err)
		require.Equal(t, want, cp.Evaluation(change.EvalID).Priority)
	}
	for _, priority := range []int{-1, 101} {
		_, err := cp.RegisterJob(&structs.JobRegistration{Job: testJob("web", "batch"), EvalPriority: priority})
		require.ErrorContains(t, err, "Eval priority must be between 1 and 100 inclusively")
		_, err = cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "web", EvalPriority: priority})
		require.ErrorContains(t, err, "Eval priority must be between 1 and 100 inclusively")
	}
}
