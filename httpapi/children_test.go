package httpapi_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// parameterized returns a job that is dispatched.
func parameterized(id string, p *nomad.ParameterizedJobConfig) *nomad.Job {
	j := mock(id, nil)
	j.Type, j.ParameterizedJob = new(nomad.JobTypeBatch), p
	return j
}

func TestAParameterizedJobIsDispatched(t *testing.T) {
	w := newWorld(t, "mock")
	jobs := w.Client.Jobs()
	j := parameterized("encode", &nomad.ParameterizedJobConfig{Payload: "required", MetaRequired: []string{"who"}, MetaOptional: []string{"why"}})
	j.Meta = map[string]string{"where": "here"}
	registered, _, err := jobs.Register(j, nil)
	require.NoError(t, err)
	require.Empty(t, registered.EvalID)

	made, _, err := jobs.DispatchOpts(&nomad.DispatchOptions{
		JobID: "encode", Meta: map[string]string{"who": "me"}, Payload: []byte("film"), Priority: 70, IdPrefixTemplate: "night",
	}, nil)
	require.NoError(t, err)
	require.Regexp(t, `^encode/dispatch-night-\d{10}-[0-9a-f]{8}$`, made.DispatchedJobID)
	w.Await(t, made.DispatchedJobID, nomad.AllocClientStatusRunning)

	child, _, err := jobs.Info(made.DispatchedJobID, nil)
	require.NoError(t, err)
	require.Equal(t, "film", string(child.Payload))
	require.Equal(t, map[string]string{"where": "here", "who": "me"}, child.Meta)
	require.Equal(t, 70, *child.Priority)
	require.Equal(t, "encode", *child.ParentID)
	require.Equal(t, made.DispatchedJobID, *child.Name)
	require.True(t, child.Dispatched)
	require.Equal(t, made.JobCreateIndex, *child.CreateIndex)

	summary, _, err := jobs.Summary("encode", nil)
	require.NoError(t, err)
	require.Equal(t, nomad.JobChildrenSummary{Running: 1}, *summary.Children)
	list, _, err := jobs.List(&nomad.QueryOptions{Filter: `ParentID == "" and ParameterizedJob is not nil`})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.True(t, list[0].ParameterizedJob)
	require.Equal(t, "running", list[0].Status)

	// Stopping the job stops no child.
	evalID, _, err := jobs.Deregister("encode", false, nil)
	require.NoError(t, err)
	require.Empty(t, evalID)
	child, _, err = jobs.Info(made.DispatchedJobID, nil)
	require.NoError(t, err)
	require.Equal(t, "running", *child.Status)
	_, _, err = jobs.Dispatch("encode", nil, nil, "", nil)
	require.ErrorContains(t, err, `Specified job "encode" is stopped`)
}

func TestWhatAParameterizedJobDoesNotTake(t *testing.T) {
	w := newWorld(t, "mock")
	for _, p := range []string{"optional", "required", "forbidden"} {
		_, _, err := w.Client.Jobs().Register(parameterized(p, &nomad.ParameterizedJobConfig{Payload: p, MetaRequired: []string{"b", "a"}, MetaOptional: []string{"c"}}), nil)
		require.NoError(t, err)
	}
	_, _, err := w.Client.Jobs().Register(mock("plain", nil), nil)
	require.NoError(t, err)
	meta := map[string]string{"a": "1", "b": "2"}
	for name, c := range map[string]struct {
		req  nomad.DispatchOptions
		code int
		text string
	}{
		"no such job":    {nomad.DispatchOptions{JobID: "none"}, 404, "parameterized job not found"},
		"a plain job":    {nomad.DispatchOptions{JobID: "plain"}, 400, `Specified job "plain" is not a parameterized job`},
		"no payload":     {nomad.DispatchOptions{JobID: "required", Meta: meta}, 400, "Payload is not provided but required by parameterized job"},
		"a payload":      {nomad.DispatchOptions{JobID: "forbidden", Meta: meta, Payload: []byte("x")}, 400, "Payload provided but forbidden by parameterized job"},
		"a large one":    {nomad.DispatchOptions{JobID: "optional", Meta: meta, Payload: make([]byte, 16<<10+1)}, 400, "Payload exceeds maximum size; 16385 > 16384"},
		"no meta":        {nomad.DispatchOptions{JobID: "optional"}, 400, "Dispatch did not provide required meta keys: [b a]"},
		"too much meta":  {nomad.DispatchOptions{JobID: "optional", Meta: map[string]string{"z": "", "y": "", "a": "", "b": ""}}, 400, "Dispatch request included unpermitted metadata keys: [y z]"},
		"a spaced ID":    {nomad.DispatchOptions{JobID: "optional", Meta: meta, IdPrefixTemplate: "a b"}, 400, "contains a space or a null character"},
		"a strange ID":   {nomad.DispatchOptions{JobID: "optional", Meta: meta, IdPrefixTemplate: "\x1b[2J"}, 400, "has control characters"},
		"a long ID":      {nomad.DispatchOptions{JobID: "optional", Meta: meta, IdPrefixTemplate: strings.Repeat("x", 400)}, 400, "Job ID is longer than 400 bytes"},
		"no priority":    {nomad.DispatchOptions{JobID: "optional", Meta: meta, Priority: 101}, 400, "Job priority must be between [1, 100]: it is 101"},
		"the most there": {nomad.DispatchOptions{JobID: "optional", Meta: meta, Payload: bytes.Repeat([]byte("x"), 16<<10)}, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := w.Client.Jobs().DispatchOpts(&c.req, nil)
			if c.code == http.StatusOK {
				require.NoError(t, err)
				return
			}
			var unexpected nomad.UnexpectedResponseError
			require.ErrorAs(t, err, &unexpected)
			require.Equal(t, c.code, unexpected.StatusCode())
			require.Contains(t, unexpected.Body(), c.text)
		})
	}
}

func TestADispatchWithATokenIsDoneOnce(t *testing.T) {
	w := newWorld(t, "mock")
	_, _, err := w.Client.Jobs().Register(parameterized("once", &nomad.ParameterizedJobConfig{}), nil)
	require.NoError(t, err)
	dispatch := func(token string) *nomad.JobDispatchResponse {
		made, _, err := w.Client.Jobs().Dispatch("once", nil, nil, "", &nomad.WriteOptions{IdempotencyToken: token})
		require.NoError(t, err)
		return made
	}
	first, again, other := dispatch("a"), dispatch("a"), dispatch("b")
	require.Equal(t, first.DispatchedJobID, again.DispatchedJobID)
	require.Equal(t, first.JobCreateIndex, again.JobCreateIndex)
	require.Empty(t, again.EvalID)
	require.NotEqual(t, first.DispatchedJobID, other.DispatchedJobID)
	require.NotEqual(t, dispatch("").DispatchedJobID, dispatch("").DispatchedJobID)
}

func TestAPeriodicJobIsForced(t *testing.T) {
	w := newWorld(t, "mock")
	j := mock("cron", nil)
	j.Type, j.Periodic = new(nomad.JobTypeBatch), &nomad.PeriodicConfig{Specs: []string{"0 0 1 1 *"}, TimeZone: new("Europe/Berlin")}
	registered, _, err := w.Client.Jobs().Register(j, nil)
	require.NoError(t, err)
	require.Empty(t, registered.EvalID)
	evalID, _, err := w.Client.Jobs().PeriodicForce("cron", nil)
	require.NoError(t, err)
	eval, _, err := w.Client.Evaluations().Info(evalID, nil)
	require.NoError(t, err)
	require.Regexp(t, `^cron/periodic-\d{10}$`, eval.JobID)
	require.Equal(t, "periodic-job", eval.TriggeredBy)
	w.Await(t, eval.JobID, nomad.AllocClientStatusRunning)
	r := w.do(t, http.MethodPut, "/v1/job/cron/evaluate", "{}")
	require.Equal(t, reply{400, r.header, "can't evaluate periodic job"}, r)
	r = w.do(t, http.MethodPut, "/v1/job/none/periodic/force", "")
	require.Equal(t, reply{404, r.header, "job not found"}, r)
}

// TestADispatchedJobIsLaunchedAtTimes is of a job that is both.
func TestADispatchedJobIsLaunchedAtTimes(t *testing.T) {
	w := newWorld(t, "mock")
	j := parameterized("both", &nomad.ParameterizedJobConfig{})
	j.Periodic = &nomad.PeriodicConfig{Specs: []string{"0 0 1 1 *"}}
	_, _, err := w.Client.Jobs().Register(j, nil)
	require.NoError(t, err)
	_, _, err = w.Client.Jobs().PeriodicForce("both", nil)
	require.ErrorContains(t, err, "can't force run non-tracked job")
	made, _, err := w.Client.Jobs().Dispatch("both", nil, []byte("x"), "", nil)
	require.NoError(t, err)
	require.Empty(t, made.EvalID)
	evalID, _, err := w.Client.Jobs().PeriodicForce(made.DispatchedJobID, nil)
	require.NoError(t, err)
	eval, _, err := w.Client.Evaluations().Info(evalID, nil)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(eval.JobID, made.DispatchedJobID+"/periodic-"))
	child, _, err := w.Client.Jobs().Info(eval.JobID, nil)
	require.NoError(t, err)
	require.Equal(t, "x", string(child.Payload))
}
