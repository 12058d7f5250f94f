package httpapi_test

import (
	"net/http"
	"net/url"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func TestAJobIsRegisteredReadAndDeregistered(t *testing.T) {
	w := newWorld(t, "mock")
	jobs := w.Client.Jobs()
	job := mock("life", nil)
	registered, meta, err := jobs.Register(job, nil)
	require.NoError(t, err)
	require.NotEmpty(t, registered.EvalID)
	require.NotZero(t, registered.JobModifyIndex)
	require.NotNil(t, meta)
	a := w.Await(t, "life", nomad.AllocClientStatusRunning)[0]

	read, _, err := jobs.Info("life", nil)
	require.NoError(t, err)
	require.Equal(t, "running", *read.Status)
	require.Equal(t, uint64(0), *read.Version)
	require.Equal(t, registered.JobModifyIndex, *read.JobModifyIndex)
	require.Equal(t, "mock_driver", read.TaskGroups[0].Tasks[0].Driver)

	list, _, err := jobs.List(nil)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "life", list[0].ID)
	require.Equal(t, 1, list[0].JobSummary.Summary["group"].Running)

	summary, _, err := jobs.Summary("life", nil)
	require.NoError(t, err)
	require.Equal(t, nomad.TaskGroupSummary{Running: 1}, summary.Summary["group"])

	scale, _, err := jobs.ScaleStatus("life", nil)
	require.NoError(t, err)
	require.Equal(t, 1, scale.TaskGroups["group"].Running)
	require.Equal(t, 1, scale.TaskGroups["group"].Desired)

	evals, _, err := jobs.Evaluations("life", nil)
	require.NoError(t, err)
	require.Len(t, evals, 1)
	require.Equal(t, registered.EvalID, evals[0].ID)
	require.Equal(t, a.EvalID, evals[0].ID)

	deployment, _, err := jobs.LatestDeployment("life", nil)
	require.NoError(t, err)
	require.Nil(t, deployment)
	deployments, _, err := jobs.Deployments("life", true, nil)
	require.NoError(t, err)
	require.Empty(t, deployments)

	stopped, _, err := jobs.Deregister("life", false, nil)
	require.NoError(t, err)
	require.NotEmpty(t, stopped)
	w.Await(t, "life", nomad.AllocClientStatusComplete)
	read, _, err = jobs.Info("life", nil)
	require.NoError(t, err)
	require.True(t, *read.Stop)
	require.Equal(t, "dead", *read.Status)

	_, _, err = jobs.Deregister("life", true, nil)
	require.NoError(t, err)
	none, _, err := jobs.Deregister("life", true, nil)
	require.NoError(t, err, "what is to be gone is, as with Nomad")
	require.Empty(t, none)
	require.Equal(t, reply{status: http.StatusNotFound, body: "job not found"}, bare(w.get(t, "/v1/job/life")))
}

// bare leaves an answer's headers out, for comparing the rest.
func bare(r reply) reply {
	r.header = nil
	return r
}

func TestARegisteredJobGetsVersions(t *testing.T) {
	w := newWorld(t, "mock")
	jobs := w.Client.Jobs()
	source := &nomad.JobSubmission{Source: "job \"versions\" {}", Format: "hcl2"}
	_, _, err := jobs.RegisterOpts(mock("versions", nil), &nomad.RegisterOptions{Submission: source}, nil)
	require.NoError(t, err)
	first, _, err := jobs.Info("versions", nil)
	require.NoError(t, err)

	_, _, err = jobs.Register(mock("versions", nil), nil)
	require.NoError(t, err)
	again, _, err := jobs.Info("versions", nil)
	require.NoError(t, err)
	require.Equal(t, uint64(0), *again.Version, "the same job is not a new version")

	_, _, err = jobs.Register(mock("versions", map[string]any{"stdout_string": "new"}), nil)
	require.NoError(t, err)
	versions, _, _, err := jobs.Versions("versions", false, nil)
	require.NoError(t, err)
	require.Len(t, versions, 2)
	require.Equal(t, uint64(1), *versions[0].Version)
	require.Equal(t, uint64(0), *versions[1].Version)

	sub, _, err := jobs.Submission("versions", 0, nil)
	require.NoError(t, err)
	require.Equal(t, source.Source, sub.Source)
	require.Equal(t, reply{status: http.StatusNotFound, body: "job source not found"}, bare(w.get(t, "/v1/job/versions/submission?version=1")))
	require.Equal(t, http.StatusBadRequest, w.get(t, "/v1/job/versions/submission?version=x").status)

	_, _, err = jobs.EnforceRegister(mock("versions", nil), *first.JobModifyIndex, nil)
	require.ErrorContains(t, err, nomad.RegisterEnforceIndexErrPrefix, "Nomad's command line looks for this text")
}

func TestAJobIsFoundWhateverItsName(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"plain", "a/b", "a/b/c", "with space", "ünï", "per%cent", "q?x=1", "summary"} {
		t.Run(id, func(t *testing.T) {
			r := w.do(t, http.MethodPut, "/v1/jobs", `{"Job":{"ID":`+quoted(id)+`,"Type":"batch","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"none"}]}]}}`)
			if r.status != http.StatusOK {
				require.Equal(t, http.StatusBadRequest, r.status, r.body)
				require.Contains(t, r.body, "ID", "it may be refused, in so many words")
				return
			}
			escaped := url.PathEscape(id)
			require.Equal(t, id, w.json(t, "/v1/job/"+escaped).(map[string]any)["ID"])
			require.NotEmpty(t, w.json(t, "/v1/job/"+escaped+"/evaluations"))
			require.Equal(t, http.StatusOK, w.do(t, http.MethodDelete, "/v1/job/"+escaped, "").status)
		})
	}
}

func TestAJobOfMissingDriversReportsWhyItIsNotPlaced(t *testing.T) {
	w := newWorld(t)
	registered, _, err := w.Client.Jobs().Register(mock("nowhere", nil), nil)
	require.NoError(t, err)
	eval, _, err := w.Client.Evaluations().Info(registered.EvalID, nil)
	require.NoError(t, err)
	require.Equal(t, "complete", eval.Status)
	require.NotEmpty(t, eval.BlockedEval)
	metrics := eval.FailedTGAllocs["group"]
	require.NotNil(t, metrics)
	require.Equal(t, map[string]int{"missing drivers": 1}, metrics.ConstraintFiltered)
	blocked, _, err := w.Client.Evaluations().Info(eval.BlockedEval, nil)
	require.NoError(t, err)
	require.Equal(t, "blocked", blocked.Status)
}

func TestAJobIsEvaluatedOnRequest(t *testing.T) {
	w := newWorld(t, "mock")
	w.run(t, mock("again", nil), nomad.AllocClientStatusRunning)
	id, _, err := w.Client.Jobs().ForceEvaluate("again", nil)
	require.NoError(t, err)
	eval, _, err := w.Client.Evaluations().Info(id, nil)
	require.NoError(t, err)
	require.Equal(t, "again", eval.JobID)
	allocs, _, err := w.Client.Evaluations().Allocations(id, nil)
	require.NoError(t, err)
	require.Empty(t, allocs, "nothing was missing")
}

func TestAJobIsValidatedWithoutBeingRegistered(t *testing.T) {
	w := newWorld(t)
	good, _, err := w.Client.Jobs().Validate(mock("checked", nil), nil)
	require.NoError(t, err)
	require.Empty(t, good.ValidationErrors)

	bad := mock("checked", nil)
	bad.TaskGroups[0].Tasks[0].Driver = ""
	bad.TaskGroups[0].Tasks = append(bad.TaskGroups[0].Tasks, bad.TaskGroups[0].Tasks[0])
	faults, _, err := w.Client.Jobs().Validate(bad, nil)
	require.NoError(t, err)
	require.Greater(t, len(faults.ValidationErrors), 1, "all faults are told")
	require.Contains(t, faults.Error, "driver")

	require.Equal(t, []any{}, w.json(t, "/v1/jobs"))
}
