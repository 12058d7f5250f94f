package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/agenttest"
)

func TestAllocationsAreListedAndRead(t *testing.T) {
	w := newWorld(t, "mock")
	stub := w.run(t, mock("read", map[string]any{"run_for": "1ms", "exit_code": 0}), nomad.AllocClientStatusComplete)
	w.run(t, mock("other", nil), nomad.AllocClientStatusRunning)
	list, _, err := w.Client.Allocations().List(nil)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, stub, list[1], "Nomad's client puts the newest first; it is as in the job's list")
	require.Equal(t, "batch", stub.JobType)

	alloc, _, err := w.Client.Allocations().Info(stub.ID, nil)
	require.NoError(t, err)
	require.Equal(t, "read", *alloc.Job.ID)
	require.Equal(t, "read.group[0]", alloc.Name)
	require.Equal(t, "run", alloc.DesiredStatus)
	require.Equal(t, 16, *alloc.Resources.MemoryMB)
	require.Equal(t, 16, *alloc.TaskResources["task"].MemoryMB)
	require.NotNil(t, alloc.Metrics)
	require.NotNil(t, alloc.AllocatedResources)
	state := alloc.TaskStates["task"]
	require.Equal(t, "dead", state.State)
	require.False(t, state.Failed)
	require.False(t, state.FinishedAt.Before(state.StartedAt))
	var types []string
	for _, e := range state.Events {
		types = append(types, e.Type)
		require.NotEmpty(t, e.DisplayMessage, e.Type)
	}
	require.Equal(t, []string{nomad.TaskReceived, nomad.TaskSetup, nomad.TaskStarted, nomad.TaskTerminated}, types)

	service := mock("service", nil)
	service.Type = new(nomad.JobTypeService)
	running := w.run(t, service, nomad.AllocClientStatusRunning)
	require.Regexp(t, `"LastRestart":null,"StartedAt":"2[^"]*","FinishedAt":null,"Paused":""}`, w.get(t, "/v1/allocation/"+running.ID).body)
	require.Contains(t, w.get(t, "/v1/allocations").body, `"DesiredTransition":{"Migrate":null,`)
	require.Regexp(t, `"EvalPriority":50,"TaskGroups":{"group":{.*"AutoPromote":false}}`, w.get(t, "/v1/job/service/deployment").body)
	require.NotContains(t, w.get(t, "/v1/evaluations").body, "0001-01-01")
	require.Regexp(t, `"ComputedClass":"v1:[0-9]+"`, w.get(t, "/v1/node/"+alloc.NodeID).body)
	require.Contains(t, w.get(t, "/v1/node/pools").body, `"NodeIdentityTTL":0`)

	require.Equal(t, reply{status: http.StatusNotFound, body: "alloc not found"}, bare(w.get(t, "/v1/allocation/none")))
}

func TestAStoppedAllocationIsReplaced(t *testing.T) {
	w := newWorld(t, "mock")
	job := mock("stopped", nil)
	service := "service"
	job.Type = &service
	stub := w.run(t, job, nomad.AllocClientStatusRunning)
	stopped, err := w.Client.Allocations().Stop(&nomad.Allocation{ID: stub.ID}, nil)
	require.NoError(t, err)
	eval, _, err := w.Client.Evaluations().Info(stopped.EvalID, nil)
	require.NoError(t, err)
	require.Equal(t, "alloc-stop", eval.TriggeredBy)
	w.awaitAllocation(t, stub.ID, func(a *nomad.Allocation) bool { return a.ClientStatus == nomad.AllocClientStatusComplete })
	allocs, _, err := w.Client.Jobs().Allocations("stopped", true, nil)
	require.NoError(t, err)
	require.Len(t, allocs, 2)
	old, _, err := w.Client.Allocations().Info(stub.ID, nil)
	require.NoError(t, err)
	next := w.awaitAllocation(t, old.NextAllocation, func(a *nomad.Allocation) bool { return a.ClientStatus == nomad.AllocClientStatusRunning })
	require.Equal(t, stub.ID, next.PreviousAllocation)
}

// awaitAllocation waits with blocking queries until an allocation is as wanted.
func (w *world) awaitAllocation(t testing.TB, id string, wanted func(*nomad.Allocation) bool) *nomad.Allocation {
	t.Helper()
	var index uint64
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		a, meta, err := w.Client.Allocations().Info(id, &nomad.QueryOptions{WaitIndex: index, WaitTime: 10 * time.Second})
		require.NoError(t, err)
		if wanted(a) {
			return a
		}
		index = meta.LastIndex
	}
	require.FailNow(t, "not in time", "allocation %s", id)
	return nil
}

func TestATaskIsRestartedOnRequest(t *testing.T) {
	w := newWorld(t, "mock")
	stub := w.run(t, mock("restarted", nil), nomad.AllocClientStatusRunning)
	alloc := &nomad.Allocation{ID: stub.ID}
	for i, restart := range []func() error{
		func() error { return w.Client.Allocations().Restart(alloc, "task", nil) },
		func() error { return w.Client.Allocations().Restart(alloc, "", nil) },
		func() error { return w.Client.Allocations().RestartAllTasks(alloc, nil) },
	} {
		require.NoError(t, restart())
		w.awaitAllocation(t, stub.ID, func(a *nomad.Allocation) bool {
			s := a.TaskStates["task"]
			return s.Restarts == uint64(i)+1 && s.State == "running"
		})
	}
}

func TestASignalReachesTheTask(t *testing.T) {
	w := newWorld(t, "mock")
	stub := w.run(t, mock("signaled", nil), nomad.AllocClientStatusRunning)
	require.NoError(t, w.Client.Allocations().Signal(&nomad.Allocation{ID: stub.ID}, nil, "task", "SIGHUP"))
	a := w.awaitAllocation(t, stub.ID, func(a *nomad.Allocation) bool {
		events := a.TaskStates["task"].Events
		return events[len(events)-1].Type == nomad.TaskSignaling
	})
	require.Equal(t, nomad.AllocClientStatusRunning, a.ClientStatus)
}

func TestWhatATaskUsesIsMeasured(t *testing.T) {
	w := newWorld(t, "wasi")
	stub := w.run(t, agenttest.Job("measured", "wasi", map[string]any{"module": w.Program(t, "sleep")}), nomad.AllocClientStatusRunning)
	stats, err := w.Client.Allocations().Stats(&nomad.Allocation{ID: stub.ID}, nil)
	require.NoError(t, err)
	task := stats.Tasks["task"]
	require.NotNil(t, task)
	require.Positive(t, task.ResourceUsage.MemoryStats.RSS)
	require.Equal(t, task.ResourceUsage.MemoryStats.RSS, stats.ResourceUsage.MemoryStats.RSS)
	require.NotNil(t, stats.ResourceUsage.CpuStats)
}

func TestAnEndedAllocationIsCollectedOnRequest(t *testing.T) {
	w := newWorld(t, "mock")
	first := w.run(t, mock("first", map[string]any{"run_for": "1ms"}), nomad.AllocClientStatusComplete)
	second := w.run(t, mock("second", map[string]any{"run_for": "1ms"}), nomad.AllocClientStatusComplete)
	has := func(id string) bool { return w.get(t, "/v1/client/fs/ls/"+id+"?path=/").status == http.StatusOK }

	// The node may hear a moment later than this client that its report was taken.
	require.Eventually(t, func() bool {
		return w.Client.Allocations().GC(&nomad.Allocation{ID: first.ID}, nil) == nil
	}, time.Minute, time.Millisecond)
	require.False(t, has(first.ID))
	require.True(t, has(second.ID))
	require.Equal(t, http.StatusOK, w.get(t, "/v1/allocation/"+first.ID).status, "the control plane still knows it")

	require.Eventually(t, func() bool {
		return w.Client.Nodes().GC(first.NodeID, nil) == nil && !has(second.ID)
	}, time.Minute, time.Millisecond)
}

func TestWhatCannotBeDoneToAnAllocationIsTheClientsFault(t *testing.T) {
	w := newWorld(t, "mock")
	runs := w.run(t, mock("runs", map[string]any{"signal_error": "deaf"}), nomad.AllocClientStatusRunning).ID
	ended := w.run(t, mock("ended", map[string]any{"run_for": "1ms"}), nomad.AllocClientStatusComplete).ID
	const none = "11111111-2222-3333-4444-555555555555"
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		text                     string
	}{
		{"restart what is unknown", "PUT", "/v1/client/allocation/" + none + "/restart", `{}`, 404, `Unknown allocation "` + none + `"`},
		{"signal what is unknown", "PUT", "/v1/client/allocation/" + none + "/signal", `{}`, 404, `Unknown allocation "` + none + `"`},
		{"measure what is unknown", "GET", "/v1/client/allocation/" + none + "/stats", ``, 404, `Unknown allocation "` + none + `"`},
		{"collect what is unknown", "GET", "/v1/client/allocation/" + none + "/gc", ``, 404, `Unknown allocation "` + none + `"`},
		{"collect what runs", "GET", "/v1/client/allocation/" + runs + "/gc", ``, 400, "stop it first"},
		{"stop what is unknown", "PUT", "/v1/allocation/" + none + "/stop", ``, 404, `alloc "` + none + `" not found`},
		{"restart an unknown task", "PUT", "/v1/client/allocation/" + runs + "/restart", `{"TaskName":"other"}`, 404, "other"},
		{"signal an unknown task", "PUT", "/v1/client/allocation/" + runs + "/signal", `{"Task":"other","Signal":"SIGHUP"}`, 404, "other"},
		{"measure an unknown task", "GET", "/v1/client/allocation/" + runs + "/stats?task=other", ``, 404, "other"},
		{"restart one task and all", "PUT", "/v1/client/allocation/" + runs + "/restart", `{"TaskName":"task","AllTasks":true}`, 400, "name a task or none"},
		{"an unknown signal", "PUT", "/v1/client/allocation/" + runs + "/signal", `{"Signal":"SIGNOT"}`, 400, "SIGNOT"},
		{"no signal", "PUT", "/v1/client/allocation/" + runs + "/signal", `{}`, 400, "signal"},
		{"restart what has ended", "PUT", "/v1/client/allocation/" + ended + "/restart", `{}`, 400, "not running"},
		{"restart a task that has ended", "PUT", "/v1/client/allocation/" + ended + "/restart", `{"TaskName":"task"}`, 400, "not running"},
		{"signal what has ended", "PUT", "/v1/client/allocation/" + ended + "/signal", `{"Signal":"SIGHUP"}`, 400, "not running"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := w.do(t, c.method, c.path, c.body)
			require.Equal(t, c.status, r.status, r.body)
			require.Contains(t, r.body, c.text)
		})
	}
	t.Run("a signal that the driver refuses", func(t *testing.T) {
		r := w.do(t, "PUT", "/v1/client/allocation/"+runs+"/signal", `{"Signal":"SIGHUP"}`)
		require.NotEqual(t, http.StatusOK, r.status)
		require.Contains(t, r.body, "deaf")
	})
}

func TestEvaluationsAreListedAndRead(t *testing.T) {
	w := newWorld(t, "mock")
	stub := w.run(t, mock("evaluated", nil), nomad.AllocClientStatusRunning)
	evals, _, err := w.Client.Evaluations().List(nil)
	require.NoError(t, err)
	require.Len(t, evals, 1)
	eval, _, err := w.Client.Evaluations().Info(stub.EvalID, nil)
	require.NoError(t, err)
	require.Equal(t, evals[0], eval)
	require.Equal(t, "complete", eval.Status)
	require.Equal(t, "job-register", eval.TriggeredBy)
	require.Empty(t, eval.DeploymentID)
	allocs, _, err := w.Client.Evaluations().Allocations(stub.EvalID, nil)
	require.NoError(t, err)
	require.Len(t, allocs, 1)
	require.Equal(t, stub.ID, allocs[0].ID)
	require.Equal(t, reply{status: http.StatusNotFound, body: "eval not found"}, bare(w.get(t, "/v1/evaluation/none")))
}
