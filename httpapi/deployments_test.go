package httpapi_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// rolling is a service of three that is updated as the block says. A task that differs from
// version to version has another duration.
func rolling(id, runFor string, update *nomad.UpdateStrategy) *nomad.Job {
	job := mock(id, map[string]any{"run_for": runFor})
	if runFor == broken {
		job = mock(id, map[string]any{"run_for": "1ms", "exit_code": 1})
	}
	job.Type = new(nomad.JobTypeService)
	update.MinHealthyTime = new(time.Millisecond)
	if runFor == broken {
		update.MinHealthyTime = new(400 * time.Millisecond)
	}
	g := job.TaskGroups[0]
	g.Count, g.Update = new(3), update
	g.RestartPolicy = &nomad.RestartPolicy{Attempts: new(0), Mode: new("fail")}
	g.Tasks[0].Resources = &nomad.Resources{CPU: new(10), MemoryMB: new(16)}
	return job
}

// broken is the duration of a task that fails at once.
const broken = ""

func parallel(n int) *nomad.UpdateStrategy { return &nomad.UpdateStrategy{MaxParallel: &n} }

// deploy registers a job and returns its deployment's ID.
func (w *world) deploy(t *testing.T, job *nomad.Job) string {
	t.Helper()
	resp, _, err := w.Client.Jobs().Register(job, nil)
	require.NoError(t, err)
	eval, _, err := w.Client.Evaluations().Info(resp.EvalID, nil)
	require.NoError(t, err)
	require.NotEmpty(t, eval.DeploymentID)
	return eval.DeploymentID
}

// awaitDeployment waits until a deployment is as is to be.
func (w *world) awaitDeployment(t *testing.T, id string, is func(*nomad.Deployment) bool) *nomad.Deployment {
	t.Helper()
	q := &nomad.QueryOptions{WaitTime: 5 * time.Second}
	deadline := time.Now().Add(time.Minute)
	for {
		d, meta, err := w.Client.Deployments().Info(id, q)
		require.NoError(t, err)
		if is(d) {
			return d
		}
		require.True(t, time.Now().Before(deadline), "%+v %+v", d, d.TaskGroups["group"])
		q.WaitIndex = meta.LastIndex
	}
}

func (w *world) awaitStatus(t *testing.T, id, status string) *nomad.Deployment {
	t.Helper()
	return w.awaitDeployment(t, id, func(d *nomad.Deployment) bool { return d.Status == status })
}

// rolled is a service whose first version is in place.
func (w *world) rolled(t *testing.T, id string) {
	t.Helper()
	w.awaitStatus(t, w.deploy(t, rolling(id, "1h", parallel(3))), nomad.DeploymentStatusSuccessful)
}

// live counts a job's live allocations by version.
func (w *world) live(t *testing.T, id string) map[uint64]int {
	t.Helper()
	stubs, _, err := w.Client.Jobs().Allocations(id, false, nil)
	require.NoError(t, err)
	n := map[uint64]int{}
	for _, s := range stubs {
		if s.DesiredStatus == "run" && s.ClientStatus != "failed" {
			n[s.JobVersion]++
		}
	}
	return n
}

func TestARollingUpdateReplacesOneAfterAnother(t *testing.T) {
	w := newWorld(t, "mock")
	w.rolled(t, "web")
	id := w.deploy(t, rolling("web", "2h", parallel(1)))
	d := w.awaitStatus(t, id, nomad.DeploymentStatusSuccessful)
	require.Equal(t, "Deployment completed successfully", d.StatusDescription)
	g := d.TaskGroups["group"]
	require.Equal(t, []int{3, 3, 3, 0}, []int{g.DesiredTotal, g.PlacedAllocs, g.HealthyAllocs, g.UnhealthyAllocs})
	stubs, _, err := w.Client.Deployments().Allocations(id, nil)
	require.NoError(t, err)
	require.Len(t, stubs, 3)
	slices.SortFunc(stubs, func(a, b *nomad.AllocationListStub) int { return int(a.CreateIndex) - int(b.CreateIndex) })
	for i, s := range stubs {
		require.True(t, *s.DeploymentStatus.Healthy)
		if i > 0 {
			require.Greater(t, s.CreateTime, stubs[i-1].DeploymentStatus.Timestamp.UnixNano(), "the one before was healthy")
		}
	}
	versions, _, _, err := w.Client.Jobs().Versions("web", false, nil)
	require.NoError(t, err)
	require.True(t, *versions[0].Stable)
	latest, _, err := w.Client.Jobs().LatestDeployment("web", nil)
	require.NoError(t, err)
	require.Equal(t, d, latest)
}

// everywhere is a system job that is updated as the block says.
func everywhere(id, runFor string, update *nomad.UpdateStrategy) *nomad.Job {
	job := rolling(id, runFor, update)
	job.Type, job.TaskGroups[0].Count = new(nomad.JobTypeSystem), nil
	return job
}

// TestASystemJobsCanaryTakesThePlaceOfWhatRuns, and nothing else is done before the promotion.
func TestASystemJobsCanaryTakesThePlaceOfWhatRuns(t *testing.T) {
	w := newWorld(t, "mock")
	w.awaitStatus(t, w.deploy(t, everywhere("sys", "1h", parallel(1))), nomad.DeploymentStatusSuccessful)
	update := parallel(1)
	update.Canary = new(10)
	id := w.deploy(t, everywhere("sys", "2h", update))
	d := w.awaitDeployment(t, id, func(d *nomad.Deployment) bool { return d.TaskGroups["group"].HealthyAllocs == 1 })
	require.Equal(t, "Deployment is running but requires manual promotion", d.StatusDescription)
	require.Equal(t, []int{1, 1, 1}, []int{d.TaskGroups["group"].DesiredTotal, d.TaskGroups["group"].DesiredCanaries, len(d.TaskGroups["group"].PlacedCanaries)})
	require.Equal(t, map[uint64]int{1: 1}, w.live(t, "sys"))
	_, _, err := w.Client.Deployments().PromoteAll(id, nil)
	require.NoError(t, err)
	require.True(t, w.awaitStatus(t, id, nomad.DeploymentStatusSuccessful).TaskGroups["group"].Promoted)

	update = parallel(1)
	update.AutoRevert, update.Canary, update.AutoPromote = new(true), new(100), new(true)
	d = w.awaitStatus(t, w.deploy(t, everywhere("sys", broken, update)), nomad.DeploymentStatusFailed)
	require.Equal(t, "Failed due to unhealthy allocations - rolling back to job version 1", d.StatusDescription)
	latest, _, err := w.Client.Jobs().LatestDeployment("sys", nil)
	require.NoError(t, err)
	w.awaitDeployment(t, latest.ID, func(d *nomad.Deployment) bool { return d.TaskGroups["group"].HealthyAllocs == 1 })
	require.Equal(t, map[uint64]int{3: 1}, w.live(t, "sys"))
}

func TestASystemJobThatNoNodeMayRunSaysWhy(t *testing.T) {
	w := newWorld(t, "mock")
	job := everywhere("sys", "1h", parallel(1))
	job.Constraints = []*nomad.Constraint{{LTarget: "${attr.kernel.name}", Operand: "=", RTarget: "plan9"}}
	resp, _, err := w.Client.Jobs().Register(job, nil)
	require.NoError(t, err)
	eval, _, err := w.Client.Evaluations().Info(resp.EvalID, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"${attr.kernel.name} = plan9": 1}, eval.FailedTGAllocs["group"].ConstraintFiltered)
	require.Empty(t, eval.BlockedEval)
	require.Equal(t, map[string]int{"group": 0}, eval.QueuedAllocations)
	require.Equal(t, nomad.DeploymentStatusSuccessful, w.awaitStatus(t, eval.DeploymentID, nomad.DeploymentStatusSuccessful).Status)
	info, _, err := w.Client.Jobs().Info("sys", nil)
	require.NoError(t, err)
	require.Equal(t, "running", *info.Status)
}

func TestAFailingUpdateGoesBack(t *testing.T) {
	w := newWorld(t, "mock")
	w.rolled(t, "web")
	update := parallel(1)
	update.AutoRevert, update.ProgressDeadline = new(true), new(time.Duration(0))
	d := w.awaitStatus(t, w.deploy(t, rolling("web", broken, update)), nomad.DeploymentStatusFailed)
	require.Equal(t, "Failed due to unhealthy allocations - rolling back to job version 0", d.StatusDescription)
	latest, _, err := w.Client.Jobs().LatestDeployment("web", nil)
	require.NoError(t, err)
	require.Equal(t, uint64(2), latest.JobVersion)
	w.awaitStatus(t, latest.ID, nomad.DeploymentStatusSuccessful)
	require.Equal(t, map[uint64]int{2: 3}, w.live(t, "web"))
}

func TestAnUpdateWithoutProgressFails(t *testing.T) {
	w := newWorld(t, "mock")
	w.rolled(t, "web")
	update := parallel(1)
	update.HealthyDeadline, update.ProgressDeadline = new(500*time.Millisecond), new(time.Second)
	job := rolling("web", broken, update)
	job.TaskGroups[0].Tasks[0].KillTimeout = new(time.Second) // else it may take longer than its deployment
	d := w.awaitStatus(t, w.deploy(t, job), nomad.DeploymentStatusFailed)
	require.Equal(t, "Failed due to progress deadline", d.StatusDescription)
	require.Equal(t, map[uint64]int{0: 2}, w.live(t, "web"), "the others are as they were")
}

func TestCanariesAndTheirPromotion(t *testing.T) {
	w := newWorld(t, "mock")
	w.rolled(t, "web")
	update := parallel(3)
	update.Canary = new(1)
	id := w.deploy(t, rolling("web", "2h", update))
	healthy := func(d *nomad.Deployment) bool { return d.TaskGroups["group"].HealthyAllocs == 1 }
	d := w.awaitDeployment(t, id, healthy)
	require.Equal(t, "Deployment is running but requires manual promotion", d.StatusDescription)
	require.Equal(t, map[uint64]int{0: 3, 1: 1}, w.live(t, "web"))
	canary, _, err := w.Client.Allocations().Info(d.TaskGroups["group"].PlacedCanaries[0], nil)
	require.NoError(t, err)
	require.True(t, canary.DeploymentStatus.Canary)
	_, _, err = w.Client.Deployments().PromoteGroups(id, []string{"other"}, nil)
	require.ErrorContains(t, err, "no canaries to promote")
	change, _, err := w.Client.Deployments().PromoteAll(id, nil)
	require.NoError(t, err)
	require.NotEmpty(t, change.EvalID)
	d = w.awaitStatus(t, id, nomad.DeploymentStatusSuccessful)
	require.True(t, d.TaskGroups["group"].Promoted)
	require.Equal(t, map[uint64]int{1: 3}, w.live(t, "web"))

	update.AutoPromote = new(true)
	w.awaitStatus(t, w.deploy(t, rolling("web", "3h", update)), nomad.DeploymentStatusSuccessful)
	require.Equal(t, map[uint64]int{2: 3}, w.live(t, "web"))
}

func TestAPersonPausesResumesAndFailsADeployment(t *testing.T) {
	w := newWorld(t, "mock")
	w.rolled(t, "web")
	update := parallel(1)
	update.HealthCheck = new("manual")
	id := w.deploy(t, rolling("web", "2h", update))
	change, _, err := w.Client.Deployments().Pause(id, true, nil)
	require.NoError(t, err)
	require.Empty(t, change.EvalID)
	stubs, _, err := w.Client.Deployments().Allocations(id, nil)
	require.NoError(t, err)
	require.Len(t, stubs, 1)
	_, _, err = w.Client.Deployments().SetAllocHealth(id, []string{stubs[0].ID}, nil, nil)
	require.NoError(t, err)
	require.Equal(t, map[uint64]int{0: 2, 1: 1}, w.live(t, "web"), "nothing new begins")
	_, _, err = w.Client.Deployments().Pause(id, false, nil)
	require.NoError(t, err)
	require.Equal(t, map[uint64]int{0: 1, 1: 2}, w.live(t, "web"))
	_, _, err = w.Client.Deployments().Unblock(id, nil)
	require.ErrorContains(t, err, "can't unblock running deployment")
	_, _, err = w.Client.Deployments().Fail(id, nil)
	require.NoError(t, err)
	d := w.awaitStatus(t, id, nomad.DeploymentStatusFailed)
	require.Equal(t, "Deployment marked as failed", d.StatusDescription)
	_, _, err = w.Client.Deployments().Pause(id, true, nil)
	require.ErrorContains(t, err, "Unexpected response code: 400 (can't pause terminal deployment)")
	_, _, err = w.Client.Deployments().Fail("00000000-0000-0000-0000-000000000000", nil)
	require.ErrorContains(t, err, "Unexpected response code: 404 (deployment not found)")
}

func TestDeploymentsAreListedAsAnythingElse(t *testing.T) {
	w := newWorld(t, "mock")
	require.Equal(t, "[]", w.get(t, "/v1/deployments").body)
	require.Equal(t, "null", w.get(t, "/v1/job/web/deployment").body)
	require.Equal(t, "[]", w.get(t, "/v1/job/web/deployments").body)
	w.rolled(t, "web")
	w.rolled(t, "api")
	all, _, err := w.Client.Deployments().List(nil)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "api", all[0].JobID)
	for path, want := range map[string]string{
		"?prefix=" + all[0].ID[:8]:                "api",
		"?filter=JobID+%3D%3D+%22web%22":          "web",
		"?per_page=1":                             "web",
		"?per_page=1&reverse=true":                "api",
		"?per_page=1&next_token=" + all[0].ID:     "api",
		"?filter=Status+%3D%3D+%22failed%22":      "",
		"?namespace=other":                        "",
		"?prefix=" + all[1].ID + "&namespace=%2A": "web",
	} {
		list := decoded[[]*nomad.Deployment](t, w.get(t, "/v1/deployments"+path).body)
		if want == "" {
			require.Empty(t, list, path)
			continue
		}
		require.Len(t, list, 1, path)
		require.Equal(t, want, list[0].JobID, path)
	}
	require.NotEmpty(t, w.get(t, "/v1/deployments?per_page=1").header.Get("X-Nomad-NextToken"))
	require.Equal(t, http.StatusNotFound, w.get(t, "/v1/deployment/"+all[0].ID[:8]).status)
	require.Equal(t, "[]", w.get(t, "/v1/deployment/allocations/none").body)
}
