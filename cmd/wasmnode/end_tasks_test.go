package main

import (
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/state"
)

// TestTasksAreEndedWithoutAnAgent ends what outlived an agent. As after a restart of the machine,
// that is no failure: jobs that allow no restart come back.
func TestTasksAreEndedWithoutAnAgent(t *testing.T) {
	w := newCrashWorld(t)
	w.start(t)
	kind := runsOn
	kind.attempts = 0
	for _, process := range []bool{true, false} {
		w.register(t, w.newJob(kind, process))
	}
	w.check(t)
	end := func() (code int, out, errs string) { return offline("operator end-tasks", "-data-dir", w.site.data) }
	code, _, errs := end()
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "end the agent first")
	assert.NotEmpty(t, w.look(t).tasks)

	w.killAgent(t)
	code, out, errs := end()
	assert.Equal(t, 0, code, errs)
	assert.Equal(t, "Nothing runs any more. The node knows of allocations: 2\n", out)
	assert.Empty(t, w.look(t).tasks)
	assert.False(t, w.site.killSupervisor(t), "it has ended, too")
	code, _, errs = end()
	assert.Equal(t, 0, code, "a second time: %s", errs)

	w.kills++
	w.start(t)
	w.check(t)
	w.end(t)
}

// TestAnOlderProgramEndsTasks of a node that a newer one has written for: its package can be removed.
func TestAnOlderProgramEndsTasks(t *testing.T) {
	w := newCrashWorld(t)
	w.start(t)
	w.register(t, w.newJob(runsOn, true))
	w.check(t)
	w.killAgent(t)
	newer, err := boltfile.Open(filepath.Join(w.site.data, "client.db"), boltfile.Options{Kind: "node state", Schema: state.SchemaVersion + 1, Logger: hclog.NewNullLogger()})
	require.NoError(t, err)
	require.NoError(t, newer.Close())
	held, err := boltfile.Lock(filepath.Join(w.site.data, "client.db"), "node state")
	require.NoError(t, err)
	code, _, errs := offline("operator end-tasks", "-data-dir", w.site.data)
	require.Equal(t, 1, code, "the newer one uses it")
	require.Contains(t, errs, "end the agent first")
	require.NoError(t, held.Close())
	code, out, errs := offline("operator end-tasks", "-data-dir", w.site.data)
	require.Equal(t, 0, code, errs)
	require.Contains(t, out, "their networks stay")
	require.Empty(t, w.look(t).tasks)
	require.False(t, w.site.killSupervisor(t), "it has ended, too")
}

func TestEndingTasksNeedsANode(t *testing.T) {
	code, _, errs := offline("operator end-tasks")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "of which node?")
	code, _, errs = offline("operator end-tasks", "all")
	require.Equal(t, 1, code)
	require.Contains(t, errs, `takes no arguments, not "all"`)
	code, _, errs = offline("operator end-tasks", "-config", filepath.Join(t.TempDir(), "none"))
	require.Equal(t, 1, code)
	require.Contains(t, errs, "none")
	code, out, _ := offline("operator end-tasks", "-data-dir", t.TempDir())
	require.Zero(t, code)
	require.Contains(t, out, "allocations: 0", "no agent was ever there")
}
