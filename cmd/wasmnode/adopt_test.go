package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/workload"
)

// damages are what can become of a database while the agent is away.
var damages = map[string]func(t *testing.T, path string){
	"removed": func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
	"emptied": func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 0)) },
	"cut": func(t *testing.T, path string) {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(path, info.Size()/2))
	},
	"overwritten": func(t *testing.T, path string) {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		require.NoError(t, err)
		defer f.Close()
		_, err = f.WriteAt([]byte(strings.Repeat("damage. ", 12<<10/8)), 0)
		require.NoError(t, err)
	},
	"older": func(t *testing.T, path string) { require.NoError(t, os.Rename(path+".older", path)) },
}

// TestALostDatabaseStopsAndLosesNothing loses what the control plane knows, or what the node
// does, while their tasks run on: the same processes and programs run afterwards, once, under
// the same allocations, and their data are there.
func TestALostDatabaseStopsAndLosesNothing(t *testing.T) {
	for _, file := range []string{"server.db", "client.db"} {
		for name, damage := range damages {
			t.Run(file+" "+name, func(t *testing.T) {
				w := newCrashWorld(t)
				path := filepath.Join(w.site.data, file)
				w.start(t)
				w.register(t, w.newJob(runsOn, true))
				w.register(t, w.newJob(ends, true))
				w.check(t)
				w.killAgent(t)
				before, err := os.ReadFile(path)
				require.NoError(t, err)
				write(t, path+".older", string(before))
				w.start(t)
				w.register(t, w.newJob(runsOn, false))
				w.register(t, w.newJob(runsOn, true))
				w.check(t)
				started := w.workloads(t)
				w.killAgent(t)
				damage(t, path)

				w.start(t)
				w.check(t)
				require.Equal(t, started, w.workloads(t))
				require.NotContains(t, w.node.out(t, "node", "status", "-self"), "Unclaimed")
				if file == "server.db" {
					w.checkAdopted(t)
				}
				// Decisions are obeyed, and all ends well.
				w.killAgent(t)
				w.start(t)
				w.check(t)
				require.Equal(t, started, w.workloads(t))
				w.end(t)
			})
		}
	}
}

// checkAdopted wants an adoption told in the log, by agent/health, and as an event.
func (w *crashWorld) checkAdopted(t *testing.T) {
	t.Helper()
	told := regexp.MustCompile(`the control plane's memory (was empty|is older)[^\n]*rebuilt from what the node knows: \d jobs?, \d allocations?`)
	require.Regexp(t, told, w.node.log.String())
	var health nomad.AgentHealthResponse
	_, err := w.api(t).Raw().Query("/v1/agent/health", &health, nil)
	require.NoError(t, err)
	require.Regexp(t, told, health.Server.Message)
	require.Regexp(t, told, w.node.out(t, "node", "status", "-self"))
}

// workloads are those that the supervisor has running, and when each was started.
func (w *crashWorld) workloads(t *testing.T) map[string]string {
	t.Helper()
	list, err := w.supervisor.List(t.Context())
	require.NoError(t, err)
	running := map[string]string{}
	for _, s := range list {
		if s.State == workload.Running {
			running[s.ID] = s.StartedAt.String()
		}
	}
	return running
}

// TestWhatNobodyKnowsRunsOnUntilSomebodyDecides loses both databases.
func TestWhatNobodyKnowsRunsOnUntilSomebodyDecides(t *testing.T) {
	w := newCrashWorld(t)
	w.start(t)
	w.register(t, w.newJob(runsOn, true))
	w.register(t, w.newJob(runsOn, false))
	w.check(t)
	started := w.workloads(t)
	w.killAgent(t)
	for _, file := range []string{"server.db", "client.db"} {
		all, err := filepath.Glob(filepath.Join(w.site.data, file+"*")) // and the copies that are kept
		require.NoError(t, err)
		for _, path := range all {
			require.NoError(t, os.Remove(path))
		}
	}
	for range 2 {
		w.start(t)
		require.Equal(t, started, w.workloads(t))
		status := w.node.out(t, "node", "status", "-self")
		require.Contains(t, status, "Unclaimed (wasmnode operator adopt|discard decides)")
		const told = "2 allocations are not known to be wanted: what runs goes on, and nothing is removed, until `wasmnode operator adopt`"
		_, health := w.node.health(t)
		require.Contains(t, health, told)
		require.Eventually(t, func() bool { return strings.Contains(w.node.log.String(), told) }, 30*time.Second, time.Millisecond)
		for _, j := range w.jobs {
			require.Contains(t, status, j.alloc[:8])
		}
		w.killAgent(t)
	}
	w.start(t)
	var one, other string
	for _, j := range w.jobs {
		one, other = j.alloc, one
	}
	r := w.node.run(t, "operator", "adopt", one[:8])
	assert.Equal(t, 1, r.code)
	assert.Equal(t, fmt.Sprintf("Error: %s cannot be adopted: nothing is known of its job: wait until it has ended, or discard it\n", one), r.stderr)
	assert.Equal(t, "Discarded "+one[:8]+"\n", w.node.out(t, "operator", "discard", one[:8]))
	assert.NoDirExists(t, filepath.Join(w.site.data, "alloc", one))
	assert.DirExists(t, filepath.Join(w.site.data, "alloc", other))
	maps.DeleteFunc(started, func(id, _ string) bool { return strings.HasPrefix(id, one) })
	assert.NotEmpty(t, started)
	assert.Equal(t, started, w.workloads(t))
	assert.Equal(t, "Discarded "+other[:8]+"\n", w.node.out(t, "operator", "discard", "-all"))
	assert.Equal(t, "Nothing is unclaimed\n", w.node.out(t, "operator", "discard", "-all"))
	assert.Empty(t, w.workloads(t))
	assert.Equal(t, 1, w.node.run(t, "operator", "adopt").code)
}

// TestARebootIsNotAFailure kills the agent, the supervisor, and all that they started, and
// has the machine's run be another. Jobs that allow no restart come back at once.
func TestARebootIsNotAFailure(t *testing.T) {
	w := newCrashWorld(t)
	w.start(t)
	kind := runsOn
	kind.attempts = 0
	for _, process := range []bool{true, false} {
		w.register(t, w.newJob(kind, process))
	}
	w.check(t)
	w.killAgent(t)
	require.True(t, w.site.killSupervisor(t))
	require.Eventually(t, func() bool { // one may start another meanwhile
		tasks := w.look(t).tasks
		for pid := range tasks {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(tasks) == 0
	}, testTimeout, tick)
	db, err := state.Open(filepath.Join(w.site.data, "client.db"), state.Options{})
	require.NoError(t, err)
	seen, err := db.Seen()
	require.NoError(t, err)
	require.NotEmpty(t, seen.BootID)
	seen.BootID = "another"
	require.NoError(t, db.PutSeen(seen))
	require.NoError(t, db.Close())

	w.kills++
	w.node = launchProcess(t, w.command())
	w.node.address = w.node.log.await(t, regexp.MustCompile(`the API answers: http_addr=(\S+)`), w.node.exited)[1]
	for id := range w.jobs {
		allocs, _, err := w.api(t).Jobs().Allocations(id, true, nil)
		require.NoError(t, err)
		if allocs[0].ClientStatus == nomad.AllocClientStatusRunning {
			require.NotEmpty(t, w.look(t).tasks, "what is said to run does")
		}
	}
	w.check(t)
	for id, j := range w.jobs {
		alloc, _, err := w.api(t).Allocations().Info(j.alloc, nil)
		require.NoError(t, err)
		require.Contains(t, taskEvents(alloc.Stub()), "Task did not survive the restart of the machine, and starts again", id)
		require.Zero(t, alloc.TaskStates["task"].Restarts)
	}
	w.end(t)
}
