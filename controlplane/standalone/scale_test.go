package standalone

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// scaling is a request to scale the group of [testJob].
func scaling(n int64) *nomad.ScalingRequest {
	return &nomad.ScalingRequest{Count: &n, Target: map[string]string{"Group": "g"}, Message: "more"}
}

func bounds(least, most int64) func(*nomad.Job) {
	return func(j *nomad.Job) { j.TaskGroups[0].Scaling = &nomad.ScalingPolicy{Min: &least, Max: &most} }
}

func TestAGroupIsScaled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cp.db")
	cp := withNode(t, path)
	register(t, cp, testJob("web", "batch", user("u"), bounds(1, 5)))

	change, err := cp.ScaleJob("default", "web", scaling(3))
	require.NoError(t, err)
	require.Equal(t, 3, *cp.Job("default", "web").TaskGroups[0].Count)
	require.Equal(t, []uint64{1, 0}, versionsOf(cp, "web"))
	require.Equal(t, "of u", cp.JobSubmission("default", "web", 1).Source)
	require.Len(t, cp.JobAllocations("default", "web"), 3)
	require.Equal(t, "job-scaling", cp.Evaluation(change.EvalID).TriggeredBy)
	require.Equal(t, 1, *cp.JobVersions("default", "web")[1].TaskGroups[0].Count, "the version before is as it was")

	said := &nomad.ScalingRequest{Target: map[string]string{"Group": "g"}, Message: "cannot ask", Error: true, Meta: map[string]any{"source": "x"}}
	change, err = cp.ScaleJob("default", "web", said)
	require.NoError(t, err)
	require.Empty(t, change.EvalID)
	require.Equal(t, []uint64{1, 0}, versionsOf(cp, "web"))

	require.NoError(t, cp.Close())
	cp = open(t, path)
	events := cp.JobScalings("default", "web")["g"]
	require.Len(t, events, 2)
	require.True(t, events[0].Error)
	require.Nil(t, events[0].Count)
	require.Equal(t, map[string]any{"source": "x"}, events[0].Meta)
	require.Equal(t, int64(3), *events[1].Count)
	require.Equal(t, int64(1), events[1].PreviousCount)
	require.NotEmpty(t, *events[1].EvalID)
	require.Greater(t, events[0].CreateIndex, events[1].CreateIndex)

	for range 2 * maxScalingEvents {
		_, err = cp.ScaleJob("default", "web", said)
		require.NoError(t, err)
	}
	require.Len(t, cp.JobScalings("default", "web")["g"], maxScalingEvents)
	register(t, cp, testJob("web", "batch", user("other"), bounds(1, 5)))
	require.Len(t, cp.JobScalings("default", "web")["g"], maxScalingEvents, "a new version forgets none")
}

func TestScalingIsRefused(t *testing.T) {
	cp := withNode(t, "")
	register(t, cp, testJob("web", "service", bounds(1, 5)))
	register(t, cp, testJob("free", "batch"))
	register(t, cp, testJob("all", "system"))
	register(t, cp, testJob("gone", "service"))
	_, err := cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "gone"})
	require.NoError(t, err)

	for name, c := range map[string]struct {
		job  string
		req  *nomad.ScalingRequest
		want string
	}{
		"no group":             {"web", &nomad.ScalingRequest{}, "missing task group name for scaling action"},
		"an unknown group":     {"web", &nomad.ScalingRequest{Target: map[string]string{"Group": "x"}}, `task group "x" specified for scaling does not exist in job`},
		"below":                {"web", scaling(0), "group count was less than scaling policy minimum: 0 < 1"},
		"above":                {"web", scaling(6), "group count was greater than scaling policy maximum: 6 > 5"},
		"negative":             {"free", scaling(-1), "scaling action count can't be negative"},
		"far too many":         {"free", scaling(maxCount + 1), "a job has at most 50000 allocations"},
		"out of range":         {"free", scaling(math.MaxInt64), "a job has at most 50000 allocations"},
		"of a system job":      {"all", scaling(2), `cannot scale jobs of type "system"`},
		"of a stopped job":     {"gone", scaling(2), "cannot scale a job that is stopped"},
		"of no job":            {"none", scaling(2), `job "none" not found`},
		"a count of failure":   {"web", &nomad.ScalingRequest{Count: new(int64(2)), Error: true, Target: map[string]string{"Group": "g"}}, "should not contain count if error is true"},
		"too much to say":      {"web", &nomad.ScalingRequest{Message: strings.Repeat("x", maxScalingEvent), Target: map[string]string{"Group": "g"}}, "larger than 16384 bytes"},
		"while it is deployed": {"web", scaling(2), "job scaling blocked due to active deployment"},
		"another index":        {"web", &nomad.ScalingRequest{Count: new(int64(2)), JobModifyIndex: 1, Target: map[string]string{"Group": "g"}}, "Enforcing job modify index 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cp.ScaleJob("default", c.job, c.req)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, []errdefs.Class{errdefs.Internal, errdefs.Unknown}, errdefs.ClassOf(err))
			require.Empty(t, cp.JobScalings("default", c.job))
		})
	}
}

func TestScalingPoliciesAreThoseOfTheJobs(t *testing.T) {
	cp := withNode(t, "")
	register(t, cp, testJob("web", "service", bounds(1, 5)))
	register(t, cp, testJob("free", "service"))
	policies := cp.ScalingPolicies()
	require.Len(t, policies, 1)
	require.Equal(t, map[string]string{"Namespace": "default", "Job": "web", "Group": "g"}, policies[0].Target)
	require.Equal(t, "horizontal", policies[0].Type)
	require.Equal(t, "default", policies[0].Namespace)

	register(t, cp, testJob("web", "service", bounds(1, 9)))
	require.Equal(t, policies[0].ID, cp.ScalingPolicies()[0].ID)
	require.Equal(t, int64(9), *cp.ScalingPolicies()[0].Max)
	_, err := cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "web"})
	require.NoError(t, err)
	require.Empty(t, cp.ScalingPolicies())

	faults, _ := cp.ValidateJob(testJob("x", "service", count(7), bounds(1, 5)))
	require.Equal(t, []string{`group "g": scaling: task group count must not be greater than maximum count in scaling policy`}, faults)
	faults, _ = cp.ValidateJob(testJob("x", "service", count(1), bounds(2, 5)))
	require.Equal(t, []string{`group "g": scaling: task group count must not be less than minimum count in scaling policy`}, faults)
	faults, _ = cp.ValidateJob(testJob("x", "service", bounds(5, 2)))
	require.Equal(t, []string{`group "g": scaling: maximum count must not be less than minimum count`}, faults)
}
