package httpapi_test

import (
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func TestEvaluationsAreCountedAndDeletedWhilePaused(t *testing.T) {
	cp, c, _ := watched(t)
	register(t, c, "runs")
	waits := mock("waits", nil)
	waits.TaskGroups[0].Tasks[0].Resources.MemoryMB = new(1 << 30)
	_, _, err := c.Jobs().Register(waits, nil)
	require.NoError(t, err)
	count := func(filter string) int {
		n, _, err := c.Evaluations().Count(&nomad.QueryOptions{Filter: filter})
		require.NoError(t, err)
		return n.Count
	}
	require.Equal(t, 3, count(""))
	require.Equal(t, 1, count(`Status == "blocked"`))
	require.Equal(t, 2, count(`JobID == "waits"`))
	evals := func(job string) (ids []string) {
		list, _, err := c.Jobs().Evaluations(job, nil)
		require.NoError(t, err)
		for _, e := range list {
			ids = append(ids, e.ID)
		}
		return ids
	}
	_, err = c.Evaluations().Delete(evals("waits"), nil)
	require.ErrorContains(t, err, "eval broker must be paused to delete evals")

	pause := *cp.SchedulerConfiguration()
	pause.PauseEvalBroker = true
	_, err = cp.SetSchedulerConfiguration(pause, nil)
	require.NoError(t, err)
	_, err = c.Evaluations().Delete(evals("runs"), nil)
	require.ErrorContains(t, err, "eval "+evals("runs")[0]+" is not safe to delete")
	_, err = c.Evaluations().Delete([]string{"11111111-1111-1111-1111-111111111111"}, nil)
	require.ErrorContains(t, err, "eval not found")
	for want, req := range map[string]*nomad.EvalDeleteRequest{
		"evals must be deleted by either ID or filter":     {},
		"evals cannot be deleted by both ID and filter":    {EvalIDs: []string{"x"}, Filter: "y"},
		"failed to read filter expression":                 {Filter: "!!"},
		`failed to read result page: error finding value `: {Filter: `Nope == "x"`},
	} {
		_, _, err = c.Evaluations().DeleteOpts(req, nil)
		require.ErrorContains(t, err, want)
	}
	done, _, err := c.Evaluations().DeleteOpts(&nomad.EvalDeleteRequest{Filter: `JobID is not empty`}, nil)
	require.NoError(t, err)
	require.Equal(t, 2, done.Count, "what runs keeps its evaluation")
	require.Empty(t, evals("waits"))
	require.Len(t, evals("runs"), 1)
	job, _, err := c.Jobs().Info("waits", nil)
	require.NoError(t, err)
	require.Equal(t, "dead", *job.Status, "nothing waits for room any more")
}
