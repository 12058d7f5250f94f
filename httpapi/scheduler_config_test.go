package httpapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

const schedulerPath = "/v1/operator/scheduler/configuration"

func TestTheSchedulerIsConfiguredAsInNomad(t *testing.T) {
	w := newWorld(t, "mock")
	op := w.Client.Operator()
	got, _, err := op.SchedulerGetConfiguration(nil)
	require.NoError(t, err)
	require.Equal(t, &nomad.SchedulerConfiguration{
		SchedulerAlgorithm: "binpack", PreemptionConfig: nomad.PreemptionConfig{SystemSchedulerEnabled: true}, CreateIndex: 1, ModifyIndex: 1,
	}, got.SchedulerConfig, "the defaults of Nomad's community edition")

	c := *got.SchedulerConfig
	c.PreemptionConfig.ServiceSchedulerEnabled = true
	c.SchedulerAlgorithm = "spread"
	set, _, err := op.SchedulerSetConfiguration(&c, nil)
	require.NoError(t, err)
	require.True(t, set.Updated)
	got, _, err = op.SchedulerGetConfiguration(nil)
	require.NoError(t, err)
	require.Greater(t, got.SchedulerConfig.ModifyIndex, uint64(1))
	require.True(t, got.SchedulerConfig.PreemptionConfig.ServiceSchedulerEnabled)

	c.SchedulerAlgorithm = "binpack"
	set, _, err = op.SchedulerCASConfiguration(&c, nil)
	require.NoError(t, err)
	require.False(t, set.Updated, "it was changed meanwhile")
	c.ModifyIndex = got.SchedulerConfig.ModifyIndex
	set, _, err = op.SchedulerCASConfiguration(&c, nil)
	require.NoError(t, err)
	require.True(t, set.Updated)

	for body, c := range map[string]struct{ query, text string }{
		`{"SchedulerAlgorithm":"best"}`:       {"", `invalid scheduler algorithm "best": "binpack" or "spread"`},
		`{"NodeLimitForFeasibilityChecks":5}`: {"", `NodeLimitForFeasibilityChecks is 5: every node is looked at here, so that it can only be 0`},
		`{}`:                                  {"?cas=x", `Error parsing cas value: "x" is not an index`},
		``:                                    {"", `request body: the configuration is missing`},
	} {
		require.Equal(t, reply{status: http.StatusBadRequest, body: c.text}, bare(w.do(t, "PUT", schedulerPath+c.query, body)), body)
	}
}

func TestNothingIsRegisteredWhileThatIsRefused(t *testing.T) {
	w := newWorld(t, "mock")
	w.run(t, mock("web", nil), "running")
	require.Equal(t, http.StatusOK, w.do(t, "PUT", schedulerPath, `{"RejectJobRegistration":true}`).status)
	refused := reply{status: http.StatusForbidden, body: "job registration, dispatch, and scale are disabled by the scheduler configuration"}
	require.Equal(t, refused, bare(w.do(t, "PUT", "/v1/jobs", `{"Job":{"ID":"web"}}`)))
	require.Equal(t, refused, bare(w.do(t, "PUT", "/v1/job/web", `{"Job":{"ID":"web"}}`)))
	require.Equal(t, refused, bare(w.do(t, "PUT", "/v1/job/web/scale", `{}`)))
	require.Equal(t, http.StatusOK, w.do(t, "DELETE", "/v1/job/web", "").status, "less may run")
}

func TestAPausedEvaluationIsDoneAfterwards(t *testing.T) {
	w := newWorld(t, "mock")
	require.Equal(t, http.StatusOK, w.do(t, "PUT", schedulerPath, `{"PauseEvalBroker":true}`).status)
	answer, _, err := w.Client.Jobs().Register(mock("web", nil), nil)
	require.NoError(t, err)
	eval, _, err := w.Client.Evaluations().Info(answer.EvalID, nil)
	require.NoError(t, err)
	require.Equal(t, "pending", eval.Status)
	require.Equal(t, http.StatusOK, w.do(t, "PUT", schedulerPath, `{}`).status)
	w.Await(t, "web", "running")
	eval, _, err = w.Client.Evaluations().Info(answer.EvalID, nil)
	require.NoError(t, err)
	require.Equal(t, "complete", eval.Status)
}

// onPort is a job that needs a static port, which only one at a time can have.
func onPort(id string, priority, port int) *nomad.Job {
	j := mock(id, nil)
	j.Priority = &priority
	j.TaskGroups[0].Networks = []*nomad.NetworkResource{{ReservedPorts: []nomad.Port{{Label: "p", Value: port}}}}
	return j
}

func TestAPreemptedJobShowsByWhomAndComesBackWhenThereIsRoom(t *testing.T) {
	w := newWorld(t, "mock")
	low := w.run(t, onPort("low", 20, 31999), "running")
	require.Equal(t, http.StatusOK, w.do(t, "PUT", schedulerPath, `{"PreemptionConfig":{"BatchSchedulerEnabled":true}}`).status)
	high := w.run(t, onPort("high", 90, 31999), "running")
	require.Equal(t, []string{low.ID}, high.PreemptedAllocations)

	victim, _, err := w.Client.Allocations().Info(low.ID, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"evict", high.ID, "Preempted by alloc ID " + high.ID, "complete"},
		[]string{victim.DesiredStatus, victim.PreemptedByAllocation, victim.DesiredDescription, victim.ClientStatus})
	winner, _, err := w.Client.Allocations().Info(high.ID, nil)
	require.NoError(t, err)
	ended, started := victim.TaskStates["task"].FinishedAt, winner.TaskStates["task"].StartedAt
	require.False(t, started.Before(ended), "%v before %v", started, ended)

	eval, _, err := w.Client.Evaluations().Info(high.EvalID, nil)
	require.NoError(t, err)
	require.Equal(t, uint64(1), eval.PlanAnnotations.DesiredTGUpdates["group"].Preemptions)
	require.Equal(t, low.ID, eval.PlanAnnotations.PreemptedAllocs[0].ID)
	evals, _, err := w.Client.Jobs().Evaluations("low", nil)
	require.NoError(t, err)
	var why []string
	for _, e := range evals {
		why = append(why, fmt.Sprintf("%s %s", e.TriggeredBy, e.Status))
	}
	require.ElementsMatch(t, []string{"job-register complete", "preemption complete", "queued-allocs blocked"}, why)

	_, _, err = w.Client.Jobs().Deregister("high", false, nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		allocs, _, err := w.Client.Jobs().Allocations("low", true, nil)
		require.NoError(t, err)
		return slices.ContainsFunc(allocs, func(a *nomad.AllocationListStub) bool { return a.ID != low.ID && a.ClientStatus == "running" })
	}, time.Minute, 10*time.Millisecond)
}
