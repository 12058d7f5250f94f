package httpapi_test

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func TestAParameterThatWouldBeIgnoredIsRefused(t *testing.T) {
	w := newWorld(t, "mock")
	stub := w.run(t, mock("asked", nil), nomad.AllocClientStatusRunning)
	for _, path := range []string{
		"/v1/jobs?nonsense=1", "/v1/jobs?status=running", "/v1/evaluations?jobs=asked", "/v1/job/asked?filter=x",
		"/v1/job/asked/allocations?filter=x", "/v1/job/asked/allocations?prefix=zzz", "/v1/job/asked/summary?version=3",
		"/v1/allocation/" + stub.ID + "?prefix=a", "/v1/node/" + stub.NodeID + "/allocations?reverse=true",
		"/v1/client/fs/ls/" + stub.ID + "?path=/&offset=3", "/v1/agent/self?type=client", "/v1/job/asked/versions?diff_versions=1",
	} {
		r := w.get(t, path)
		require.Equal(t, http.StatusBadRequest, r.status, path)
		require.Contains(t, r.body, "unknown parameter", path)
		require.NotContains(t, r.body, "\n", path)
	}
	for _, path := range []string{"/v1/jobs?per_page=1", "/v1/node/pools?prefix=x", "/v1/jobs/statuses?include_children=true"} {
		r := w.do(t, http.MethodPut, path, "{}")
		require.Equal(t, http.StatusBadRequest, r.status, path)
		require.Contains(t, r.body, "unknown parameter", path)
	}
	for _, path := range []string{
		"/v1/jobs?region=global&namespace=default&stale=&pretty=&index=0&wait=1s&per_page=1&next_token=&filter=&prefix=&reverse=true",
		"/v1/job/asked/versions?diffs=false", "/v1/job/asked/allocations?all=true&region=global",
	} {
		require.Equal(t, http.StatusOK, w.get(t, path).status, path)
	}
}

func TestAnotherRegionIsNotServed(t *testing.T) {
	w := newWorld(t, "mock")
	for _, at := range []struct{ method, path, body string }{
		{http.MethodGet, "/v1/jobs?region=eu", ""},
		{http.MethodGet, "/v1/status/leader?region=eu", ""},
		{http.MethodPut, "/v1/jobs?region=eu", `{"Job": {"ID": "j"}}`},
		{http.MethodPut, "/v1/jobs", `{"Region": "eu", "Job": {"ID": "j"}}`},
		{http.MethodPut, "/v1/jobs", `{"Job": {"ID": "j", "Region": "eu"}}`},
		{http.MethodPut, "/v1/validate/job", `{"Job": {"ID": "j", "Region": "eu"}}`},
		{http.MethodDelete, "/v1/job/j?region=eu", ""},
	} {
		r := w.do(t, at.method, at.path, at.body)
		require.Equal(t, http.StatusInternalServerError, r.status, at)
		require.Equal(t, "No path to region", r.body, at)
	}
	require.Equal(t, http.StatusOK, w.get(t, "/v1/jobs?region=global").status)
}

func TestListsAreFilteredAsAsked(t *testing.T) {
	w := newWorld(t, "mock")
	stub := w.run(t, mock("one", nil), nomad.AllocClientStatusRunning)
	w.run(t, mock("two", nil), nomad.AllocClientStatusRunning)
	waiting := mock("waiting", nil)
	waiting.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{MemoryMB: new(1 << 30)}
	waiting.Meta = map[string]string{"owner": "ann"}
	_, _, err := w.Client.Jobs().Register(waiting, nil)
	require.NoError(t, err)

	jobs := func(path string) (ids []string) {
		for _, e := range decoded[[]*nomad.Evaluation](t, w.get(t, path).body) {
			ids = append(ids, e.JobID+":"+e.Status)
		}
		slices.Sort(ids)
		return slices.Compact(ids)
	}
	require.Equal(t, []string{"one:complete"}, jobs("/v1/evaluations?job=one"))
	require.Equal(t, []string{"waiting:blocked"}, jobs("/v1/evaluations?status=blocked"))
	require.Equal(t, []string{"waiting:blocked"}, jobs("/v1/evaluations?status=blocked&job=waiting"))
	require.Empty(t, jobs("/v1/evaluations?status=blocked&job=one"))

	blocked := decoded[[]*nomad.Evaluation](t, w.get(t, "/v1/evaluations?status=blocked").body)[0]
	related := decoded[nomad.Evaluation](t, w.get(t, "/v1/evaluation/"+blocked.ID+"?related=true").body).RelatedEvals
	require.Len(t, related, 1)
	require.Equal(t, blocked.PreviousEval, related[0].ID)

	list := decoded[[]*nomad.AllocationListStub](t, w.get(t, "/v1/allocations?resources=true&task_states=false&prefix="+stub.ID).body)
	require.Len(t, list, 1)
	require.NotNil(t, list[0].AllocatedResources)
	require.Nil(t, list[0].TaskStates)
	nodes := decoded[[]*nomad.NodeListStub](t, w.get(t, "/v1/nodes?os=true").body)
	require.NotEmpty(t, nodes[0].Attributes["os.name"])
	require.Nil(t, nodes[0].NodeResources, "they are told when they are asked for")
	nodes = decoded[[]*nomad.NodeListStub](t, w.get(t, "/v1/nodes?resources=true").body)
	require.Positive(t, nodes[0].NodeResources.Memory.MemoryMB)
	require.NotNil(t, nodes[0].ReservedResources)
	require.Len(t, w.json(t, "/v1/jobs/statuses?prefix=t"), 1)
	stubs := decoded[[]*nomad.JobListStub](t, w.get(t, "/v1/jobs?meta=true&prefix=wait").body)
	require.Equal(t, map[string]string{"owner": "ann"}, stubs[0].Meta)
	require.Equal(t, "[]", w.get(t, "/v1/namespaces?prefix=other").body)
	require.Equal(t, "[]", w.get(t, "/v1/vars?path=nomad%2Fjobs").body)
	require.Equal(t, "{}", w.get(t, "/v1/allocation/"+stub.ID+"/checks").body)
	require.Equal(t, http.StatusNotFound, w.get(t, "/v1/client/stats?node_id=another").status)
	require.JSONEq(t, `{"client": {"ok": true, "message": "ok"}, "conditions": []}`, strings.ToLower(w.get(t, "/v1/agent/health?type=client").body))
}

// Allocations of a job that was purged are not those of another with its ID.
func TestAPurgedJobsAllocationsAreNotAnothers(t *testing.T) {
	w := newWorld(t, "mock")
	first := w.run(t, mock("again", nil), nomad.AllocClientStatusRunning)
	_, _, err := w.Client.Jobs().Deregister("again", true, nil)
	require.NoError(t, err)
	_, _, err = w.Client.Jobs().Register(mock("again", nil), nil)
	require.NoError(t, err)
	ids := func(all bool) (ids []string) {
		list, _, err := w.Client.Jobs().Allocations("again", all, nil)
		require.NoError(t, err)
		for _, a := range list {
			ids = append(ids, a.ID)
		}
		return ids
	}
	require.Len(t, ids(false), 1)
	require.NotContains(t, ids(false), first.ID)
	require.Len(t, ids(true), 2)
	summary, _, err := w.Client.Jobs().Summary("again", nil)
	require.NoError(t, err)
	counted := summary.Summary["group"]
	require.Equal(t, 1, counted.Starting+counted.Running+counted.Failed+counted.Complete)
}

func TestWhatFollowsAJobsIDIsNotPartOfIt(t *testing.T) {
	w := newWorld(t, "mock")
	register(t, w.Client, "known")
	require.Equal(t, "no such endpoint: /v1/job/known/foo", w.get(t, "/v1/job/known/foo").body)
	require.Equal(t, "job not found", w.get(t, "/v1/job/known/services/foo").body)
	require.Equal(t, "[]", w.get(t, "/v1/job/known/services").body)
	for _, verb := range []string{"plan", "dispatch", "periodic/force"} {
		r := w.get(t, "/v1/job/a/b/"+verb)
		require.Equal(t, http.StatusMethodNotAllowed, r.status, verb)
		require.Equal(t, "Invalid method", r.body)
	}
}

// acted is what registering acts on of a request, and what of it is refused or does not
// matter here.
var acted = map[string]string{
	"Submission": "kept", "Job": "registered", "EnforceIndex": "done", "JobModifyIndex": "done", "EvalPriority": "done",
	"PolicyOverride": "there are no policies", "PreserveCounts": "done", "PreserveResources": "done",
	"WriteRequest": "its region is checked, its namespace is the job's, its token is the header's",
}

func TestEveryFieldOfARegistrationIsKnown(t *testing.T) {
	for f := range reflect.TypeFor[nomad.JobRegisterRequest]().Fields() {
		require.Contains(t, acted, f.Name)
	}
}

func TestWarningsAreToldAsNomadDoes(t *testing.T) {
	w := newWorld(t, "mock")
	wrong := mock("wrong", nil)
	wrong.Priority = new(101)
	refused, _, err := w.Client.Jobs().Validate(wrong, nil)
	require.NoError(t, err)
	require.Len(t, refused.ValidationErrors, 1)
	require.True(t, refused.DriverConfigValidated, "the tools else say that there was no agent to ask")
	job := mock("warned", nil)
	job.TaskGroups[0].Tasks[0].Kind = "k"
	job.TaskGroups[0].Disconnect = &nomad.DisconnectStrategy{LostAfter: new(time.Hour)}
	checked, _, err := w.Client.Jobs().Validate(job, nil)
	require.NoError(t, err)
	require.True(t, checked.DriverConfigValidated)
	resp, _, err := w.Client.Jobs().Register(job, nil)
	require.NoError(t, err)
	require.Equal(t, checked.Warnings, resp.Warnings)
	require.Equal(t, `2 warnings:

* group "group": task "task": kind: it is Consul's, and has no effect
* group "group": disconnect: it has no effect: the node and its control plane are never apart`, resp.Warnings)
	require.NotEmpty(t, resp.EvalID, "it runs all the same")
}

func TestValidatingAsksTheDrivers(t *testing.T) {
	w := newWorld(t, "mock")
	for name, c := range map[string]struct {
		driver, fault, warning string
		config                 map[string]any
	}{
		"right":            {driver: "mock_driver", config: map[string]any{"run_for": "1s"}},
		"a key too many":   {driver: "mock_driver", config: map[string]any{"run_fro": "1s"}, fault: `group "group": task "task": config.run_fro: `},
		"a wrong type":     {driver: "mock_driver", config: map[string]any{"run_for": []any{}}, fault: `group "group": task "task": config.run_for: `},
		"known at start":   {driver: "mock_driver", config: map[string]any{"exit_code": "${meta.code}"}},
		"beside that":      {driver: "mock_driver", config: map[string]any{"exit_code": "${meta.code}", "run_fro": "1s"}, fault: `group "group": task "task": config.run_fro: `},
		"a missing driver": {driver: "docker", config: map[string]any{"image": "x"}, warning: `group "group": task "task": its config was not checked: `},
	} {
		t.Run(name, func(t *testing.T) {
			job := mock("checked", nil)
			job.TaskGroups[0].Tasks[0].Driver, job.TaskGroups[0].Tasks[0].Config = c.driver, c.config
			resp, _, err := w.Client.Jobs().Validate(job, nil)
			require.NoError(t, err)
			require.Equal(t, c.warning == "", resp.DriverConfigValidated)
			if c.fault == "" {
				require.Empty(t, resp.ValidationErrors)
			} else {
				require.Len(t, resp.ValidationErrors, 1)
				require.Contains(t, resp.ValidationErrors[0], c.fault)
			}
			require.Contains(t, resp.Warnings, c.warning)
			require.Equal(t, c.warning == "", resp.Warnings == "")
			registered, _, err := w.Client.Jobs().Register(job, nil)
			require.NoError(t, err, "the driver may be another one when the task starts")
			planned, _, err := w.Client.Jobs().Plan(job, false, nil)
			require.NoError(t, err)
			for _, warnings := range []string{registered.Warnings, planned.Warnings} {
				require.Contains(t, warnings, c.fault)
			}
			require.Equal(t, c.fault == "", registered.Warnings == "")
			require.Contains(t, planned.Warnings, c.warning)
			require.Equal(t, c.fault+c.warning == "", planned.Warnings == "")
		})
	}
}
