package httpapi_test

import (
	"net/http"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func TestAVersionIsTaggedMarkedAndRevertedTo(t *testing.T) {
	w := newWorld(t, "mock")
	jobs := w.Client.Jobs()
	for _, text := range []string{"one", "two"} {
		_, _, err := jobs.Register(mock("web", map[string]any{"stdout_string": text}), nil)
		require.NoError(t, err)
	}
	_, err := jobs.TagVersion("web", 0, "golden", "it works", nil)
	require.NoError(t, err)
	tagged, _, err := jobs.VersionByTag("web", "golden", nil)
	require.NoError(t, err)
	require.Equal(t, uint64(0), *tagged.Version)
	require.Equal(t, "it works", tagged.VersionTag.Description)
	stable, _, err := jobs.Stable("web", 0, true, nil)
	require.NoError(t, err)
	require.NotZero(t, stable.JobModifyIndex)

	reverted, _, err := jobs.Revert("web", 0, new(uint64(1)), nil, "", "")
	require.NoError(t, err)
	require.NotEmpty(t, reverted.EvalID)
	versions, _, _, err := jobs.Versions("web", false, nil)
	require.NoError(t, err)
	require.Len(t, versions, 3)
	require.Equal(t, "one", versions[0].TaskGroups[0].Tasks[0].Config["stdout_string"])
	require.Nil(t, versions[0].VersionTag)
	require.True(t, *versions[2].Stable)
	_, err = jobs.UntagVersion("web", "golden", nil)
	require.NoError(t, err)

	for path, c := range map[string]struct {
		method, body string
		status       int
		text         string
	}{
		"/v1/job/web/revert":            {"PUT", `{"JobID":"web","JobVersion":2}`, http.StatusBadRequest, "can't revert to current version"},
		"/v1/job/web/revert?":           {"PUT", `{"JobID":"wob","JobVersion":1}`, http.StatusBadRequest, "Job ID does not match"},
		"/v1/job/wob/revert":            {"PUT", `{"JobID":"wob","JobVersion":1}`, http.StatusNotFound, `job "wob" in namespace "default" not found`},
		"/v1/job/web/versions/none/tag": {"DELETE", ``, http.StatusNotFound, `tag "none" not found on job "web"`},
		"/v1/job/web/versions/a!/tag":   {"PUT", `{}`, http.StatusBadRequest, `version tag "a!": a name has 1 to 128 letters, digits, '.', '-' and '_'`},
		"/v1/job/web/versions":          {"DELETE", ``, http.StatusMethodNotAllowed, "Invalid method"},
		"/v1/job/web/stable":            {"PUT", `{"JobID":"web","JobVersion":9}`, http.StatusNotFound, `job "web" in namespace "default" at version 9 not found`},
	} {
		t.Run(c.method+path, func(t *testing.T) {
			require.Equal(t, reply{status: c.status, body: c.text}, bare(w.do(t, c.method, path, c.body)))
		})
	}
}

func TestAGroupIsScaledAsTheAutoscalerDoes(t *testing.T) {
	w := newWorld(t, "mock")
	job := mock("web", nil)
	job.TaskGroups[0].Scaling = &nomad.ScalingPolicy{
		Min: new(int64(1)), Max: new(int64(3)), Policy: map[string]any{"cooldown": "1m", "check": []any{map[string]any{"source": "prometheus"}}},
	}
	_, _, err := w.Client.Jobs().Register(job, nil)
	require.NoError(t, err)

	// It waits for policies, reads each, asks for the state of its target and scales it.
	list, meta, err := w.Client.Scaling().ListPolicies(&nomad.QueryOptions{WaitIndex: 1})
	require.NoError(t, err)
	require.NotZero(t, meta.LastIndex)
	require.Len(t, list, 1)
	policy, _, err := w.Client.Scaling().GetPolicy(list[0].ID, nil)
	require.NoError(t, err)
	require.Equal(t, "1m", policy.Policy["cooldown"])
	require.True(t, *policy.Enabled)
	require.Equal(t, int64(3), *policy.Max)
	count := 2
	scaled, _, err := w.Client.Jobs().Scale("web", policy.Target["Group"], &count, "up", false, map[string]any{"nomad_autoscaler.count.original": 1}, nil)
	require.NoError(t, err)
	require.NotEmpty(t, scaled.EvalID)
	require.Len(t, w.Await(t, "web", nomad.AllocClientStatusRunning), 2)
	status, _, err := w.Client.Jobs().ScaleStatus("web", nil)
	require.NoError(t, err)
	group := status.TaskGroups["group"]
	require.Equal(t, []int{2, 2, 2}, []int{group.Desired, group.Placed, group.Running})
	require.Equal(t, "up", group.Events[0].Message)
	require.Equal(t, scaled.EvalID, *group.Events[0].EvalID)

	count = 4
	_, _, err = w.Client.Jobs().Scale("web", "group", &count, "", false, nil, nil)
	require.ErrorContains(t, err, "group count was greater than scaling policy maximum: 4 > 3")
	require.Equal(t, reply{status: http.StatusNotFound, body: "policy not found"}, bare(w.get(t, "/v1/scaling/policy/none")))
	list, _, err = w.Client.Scaling().ListPolicies(&nomad.QueryOptions{Params: map[string]string{"job": "other"}})
	require.NoError(t, err)
	require.Empty(t, list)
}
