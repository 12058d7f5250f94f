package agent_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/agent/agenttest"
)

// TestTheAPIAnswersBeforePluginsAreLoaded asks everything before the first plugin is so much
// as looked for, at a first start and at one with something to restore: a job is taken, waits,
// and is placed when its driver is there.
func TestTheAPIAnswersBeforePluginsAreLoaded(t *testing.T) {
	o := options(t)
	for _, job := range []string{"first", "second"} {
		ctx, stop := context.WithCancel(t.Context())
		o.Answers = func(address string) { askEarly(t, address, job) }
		ready, ended := make(chan string, 1), make(chan error, 1)
		o.Ready = func(address string) { ready <- address }
		go func() { ended <- agent.Run(ctx, o) }()
		client := clientAt(t, <-ready)
		health, err := client.Agent().Health()
		require.NoError(t, err)
		require.Equal(t, "ok", health.Client.Message)
		awaitRunning(t, client, job)
		awaitRunning(t, client, "first")
		evals, _, err := client.Jobs().Evaluations(job, nil)
		require.NoError(t, err)
		for _, e := range evals {
			require.Equal(t, "complete", e.Status, "nothing is left that waits")
		}
		stop()
		require.NoError(t, <-ended)
	}
}

// askEarly asks an agent that has just begun. It is called on the agent's goroutine.
func askEarly(t *testing.T, address, jobID string) {
	t.Helper()
	client := clientAt(t, address)
	health, err := client.Agent().Health()
	if !assert.NoError(t, err) {
		return
	}
	assert.Contains(t, health.Client.Message, "restoring allocations; looking for plugins in ")
	assert.True(t, health.Client.Ok)
	nodes, _, err := client.Nodes().List(nil)
	assert.NoError(t, err)
	for _, n := range nodes { // it is registered once the agent goes on
		_, _, err := client.Nodes().Info(n.ID, nil)
		assert.NoError(t, err)
		_, err = client.Nodes().Stats(n.ID, nil)
		assert.NoError(t, err)
	}
	_, err = client.Agent().Self()
	assert.NoError(t, err)
	_, err = client.Raw().Query("/v1/agent/plugins", &[]any{}, nil)
	assert.NoError(t, err)
	var text string
	_, err = client.Raw().Query("/v1/client/allocation/00000000-0000-0000-0000-000000000000/stats", &text, nil)
	assert.ErrorContains(t, err, "the node is restoring its allocations")
	answer, _, err := client.Jobs().Register(agenttest.Job(jobID, "mock_driver", map[string]any{"run_for": "1h"}), nil)
	if !assert.NoError(t, err) {
		return
	}
	eval, _, err := client.Evaluations().Info(answer.EvalID, nil)
	assert.NoError(t, err)
	// A node that was there before is still known with its drivers.
	assert.Equal(t, len(nodes) == 0, eval.BlockedEval != "", "it waits for a node")
}

func clientAt(t *testing.T, address string) *nomad.Client {
	t.Helper()
	client, err := nomad.NewClient(&nomad.Config{Address: "http://" + address})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func TestAPluginDirectoryThatDoesNotExistIsAnErrorUnlessItIsTheDefault(t *testing.T) {
	o := options(t)
	o.PluginDir = filepath.Join(t.TempDir(), "none")
	require.EqualError(t, agent.Run(t.Context(), o), "plugin directory "+o.PluginDir+" does not exist: create it, or choose another with -plugin-dir")
	require.NoDirExists(t, o.PluginDir)

	o.PluginDir = ""
	ctx, stop := context.WithCancel(t.Context())
	o.Ready = func(string) { stop() }
	require.NoError(t, agent.Run(ctx, o))
	require.DirExists(t, filepath.Join(o.DataDir, "plugins"))
	require.NoError(t, os.Remove(filepath.Join(o.DataDir, "plugins")))
}
