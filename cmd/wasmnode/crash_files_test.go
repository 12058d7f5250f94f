package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// TestCrashAtEveryFailpointOfATasksFiles has the agent die around each write of what a task finds
// in its directories: a rendering, the token of its identity, its payload, the API's socket and the
// data of the allocation before. The task itself looks whether they are whole. It dies around a
// snapshot that is to be restored, too.
func TestCrashAtEveryFailpointOfATasksFiles(t *testing.T) {
	if os.Getenv(crashEnv) == "" {
		t.Skip("make crash, which is a part of make check-full, walks there")
	}
	walkFailpoints(t, scenario{play: (*crashWorld).playFiles, after: (*crashWorld).checkFiles, only: taskFiles})
}

// taskFiles are the points around what a task finds in its directories.
var taskFiles = []string{
	"agent/api.", "agent/identity.", "agent/move", "agent/payload.", "agent/secrets.", "agent/server.db.restore.", "agent/template.",
}

const (
	filesJob    = "files"
	movesJob    = "moves"
	filesScript = `cd "$NOMAD_TASK_DIR" && test "$(cat rendered)" = "all of it" && test "$(cat payload)" = "sent along" &&
test "$(tr -cd . <"$NOMAD_SECRETS_DIR/nomad_token" | wc -c)" -eq 2 && test -S "$NOMAD_SECRETS_DIR/api.sock"`
)

// dispatchFiles has a task look for its files. It returns the job, or "": the agent has died.
func (w *crashWorld) dispatchFiles(t *testing.T) string {
	t.Helper()
	task := nomad.NewTask("task", "beside").SetConfig("side", "exec sleep 10000").SetConfig("own", filesScript)
	task.Resources = &nomad.Resources{CPU: ptr(1), MemoryMB: ptr(32)}
	task.LogConfig = &nomad.LogConfig{MaxFiles: ptr(1), MaxFileSizeMB: ptr(1)}
	task.Identity = &nomad.WorkloadIdentity{File: true}
	task.DispatchPayload = &nomad.DispatchPayloadConfig{File: "payload"}
	task.Templates = []*nomad.Template{{EmbeddedTmpl: ptr("all of it"), DestPath: ptr("local/rendered")}}
	group := nomad.NewTaskGroup("group", 1).AddTask(task).RequireDisk(&nomad.EphemeralDisk{SizeMB: ptr(10)})
	group.RestartPolicy = &nomad.RestartPolicy{Attempts: ptr(0), Interval: ptr(time.Hour), Delay: ptr(time.Millisecond), Mode: ptr(nomad.RestartPolicyModeFail)}
	group.ReschedulePolicy = &nomad.ReschedulePolicy{Attempts: ptr(0), Unlimited: ptr(false)}
	job := nomad.NewBatchJob(filesJob, filesJob, nomad.GlobalRegion, 50).AddDatacenter("*").AddTaskGroup(group)
	job.ParameterizedJob = &nomad.ParameterizedJobConfig{Payload: "required"}
	if _, _, err := w.api(t).Jobs().Register(job, nil); err != nil {
		w.diedOf(t, err)
		return ""
	}
	made, _, err := w.api(t).Jobs().Dispatch(filesJob, nil, []byte("sent along"), "", nil)
	if err != nil {
		w.diedOf(t, err)
		return ""
	}
	return made.DispatchedJobID
}

// playFiles waits until a task has looked for its files.
func (w *crashWorld) playFiles(t *testing.T) {
	t.Helper()
	child := w.dispatchFiles(t)
	if child == "" || !w.until(func() error { return w.filesFault(t, child) }) || !w.moves(t, "one") || !w.moves(t, "two") {
		return
	}
	if snapshot, err := w.api(t).Operator().Snapshot(nil); err == nil {
		_, _ = w.api(t).Operator().SnapshotRestore(snapshot, nil) // the agent may die meanwhile
		_ = snapshot.Close()
	}
}

// until waits for something, and reports whether the agent has not died meanwhile.
func (w *crashWorld) until(try func() error) bool {
	for try() != nil {
		if w.node.hasEnded() {
			return false
		}
		time.Sleep(tick)
	}
	return true
}

// moves has a job run in another version, in an allocation that has the data of the one before. It
// reports whether the agent has not died meanwhile.
func (w *crashWorld) moves(t *testing.T, version string) bool {
	t.Helper()
	task := nomad.NewTask("task", "beside").SetConfig("side", "exec sleep 10000").
		SetConfig("own", `echo "$NOMAD_ALLOC_ID" >>"$NOMAD_ALLOC_DIR/data/kept"; exec sleep 10000`)
	task.Resources = &nomad.Resources{CPU: ptr(1), MemoryMB: ptr(32)}
	task.LogConfig = &nomad.LogConfig{MaxFiles: ptr(1), MaxFileSizeMB: ptr(1)}
	task.Env = map[string]string{"VERSION": version}
	group := nomad.NewTaskGroup("group", 1).AddTask(task).
		RequireDisk(&nomad.EphemeralDisk{SizeMB: ptr(10), Sticky: ptr(true), Migrate: ptr(true)})
	job := nomad.NewServiceJob(movesJob, movesJob, nomad.GlobalRegion, 50).AddDatacenter("*").AddTaskGroup(group)
	if _, _, err := w.api(t).Jobs().Register(job, nil); err != nil {
		return w.diedOf(t, err)
	}
	return w.until(func() error { return w.movedFault(t) })
}

// movedFault is why the job's last version does not run yet with all that was kept.
func (w *crashWorld) movedFault(t *testing.T) error {
	t.Helper()
	job, _, err := w.api(t).Jobs().Info(movesJob, nil)
	if err != nil {
		return err
	}
	allocs, _, err := w.api(t).Jobs().Allocations(movesJob, true, nil)
	if err != nil {
		return err
	}
	for _, a := range allocs {
		if a.JobVersion != *job.Version || a.ClientStatus != nomad.AllocClientStatusRunning {
			continue
		}
		kept, err := os.ReadFile(filepath.Join(w.site.data, "alloc", a.ID, "alloc", "data", "kept"))
		if lines := strings.Fields(string(kept)); err == nil && slices.Contains(lines, a.ID) {
			require.Subset(t, lines, w.kept, "what the allocations before had")
			w.kept = lines
			return nil
		}
	}
	return fmt.Errorf("%s does not run in version %d", movesJob, *job.Version)
}

// checkFiles wants each task to have found its files, whenever the agent died, and forgets them.
func (w *crashWorld) checkFiles(t *testing.T) {
	t.Helper()
	require.NotEmpty(t, w.dispatchFiles(t))
	require.True(t, w.moves(t, "three") && w.moves(t, "four"))
	w.kept = nil
	jobs, _, err := w.api(t).Jobs().List(nil)
	require.NoError(t, err)
	for _, j := range jobs {
		if strings.HasPrefix(j.ID, filesJob+"/") {
			eventually(t, func() error { return w.filesFault(t, j.ID) })
		}
	}
	for _, j := range jobs {
		_, _, err := w.api(t).Jobs().Deregister(j.ID, true, nil)
		require.NoError(t, err)
	}
	w.checkProcesses(t, nil)
	eventually(t, func() error { return w.unended(t) }) // only then they are garbage
}

// unended is which allocation has not been reported to have ended.
func (w *crashWorld) unended(t *testing.T) error {
	t.Helper()
	allocs, _, err := w.api(t).Allocations().List(nil)
	require.NoError(t, err)
	for _, a := range allocs {
		if a.ClientStatus == nomad.AllocClientStatusRunning || a.ClientStatus == nomad.AllocClientStatusPending {
			return fmt.Errorf("allocation %s of %s is %s", a.ID, a.JobID, a.ClientStatus)
		}
	}
	return nil
}

// filesFault is why a dispatched job has not found its files yet.
func (w *crashWorld) filesFault(t *testing.T, job string) error {
	t.Helper()
	allocs, _, err := w.api(t).Jobs().Allocations(job, true, nil)
	if err != nil {
		return err
	}
	for _, a := range allocs {
		require.NotEqual(t, nomad.AllocClientStatusFailed, a.ClientStatus, "%s: %+v", job, a.TaskStates["task"])
		if a.ClientStatus == nomad.AllocClientStatusComplete {
			return nil
		}
	}
	return fmt.Errorf("%s has not ended: %d allocations", job, len(allocs))
}
