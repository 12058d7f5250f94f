package httpapi_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/agenttest"
)

func TestTheOneServerStaysWhatItIs(t *testing.T) {
	w := newWorld(t)
	raft, err := w.Client.Operator().RaftGetConfiguration(nil)
	require.NoError(t, err)
	require.Len(t, raft.Servers, 1)
	self := raft.Servers[0]
	require.True(t, self.Leader)
	require.NoError(t, w.Client.Operator().RaftTransferLeadershipByID(self.ID, nil), "it leads already")
	require.NoError(t, w.Client.Operator().RaftTransferLeadershipByAddress(self.Address, nil))
	const nobody = "11111111-1111-1111-1111-111111111111"
	for _, c := range []struct{ method, path, want string }{
		{http.MethodDelete, "raft/peer?id=" + self.ID, "the only server cannot be removed: to end it, end the agent"},
		{http.MethodDelete, "raft/peer?id=" + nobody, `id "` + nobody + `" was not found in the Raft configuration`},
		{http.MethodDelete, "raft/peer?address=" + self.Address, "Removing a peer by address is not supported in the current raft protocol version"},
		{http.MethodDelete, "raft/peer", "Must specify the peer's ID to remove"},
		{http.MethodPut, "raft/transfer-leadership", "must specify id or address"},
		{http.MethodPut, "raft/transfer-leadership?id=" + nobody, `id "` + nobody + `" was not found in the Raft configuration`},
		{http.MethodPut, "raft/transfer-leadership?address=192.0.2.1:4647", `address "192.0.2.1:4647" was not found in the Raft configuration`},
		{http.MethodPut, "raft/transfer-leadership?id=a&address=b", "must specify either id or address"},
		{http.MethodPut, "raft/transfer-leadership?id=a&id=b", "must specify only one id"},
		{http.MethodPut, "raft/transfer-leadership?address=a&address=b", "must specify only one address"},
	} {
		r := w.do(t, c.method, "/v1/operator/"+c.path, "")
		require.Equal(t, http.StatusBadRequest, r.status, c.path)
		require.Equal(t, c.want, r.body, c.path)
	}
}

func TestAutopilotIsConfiguredAsItIs(t *testing.T) {
	w := newWorld(t)
	c, _, err := w.Client.Operator().AutopilotGetConfiguration(nil)
	require.NoError(t, err)
	_, err = w.Client.Operator().AutopilotSetConfiguration(c, nil)
	require.NoError(t, err, "it is that")
	updated, _, err := w.Client.Operator().AutopilotCASConfiguration(c, nil)
	require.NoError(t, err)
	require.True(t, updated)
	c.ModifyIndex++
	updated, _, err = w.Client.Operator().AutopilotCASConfiguration(c, nil)
	require.NoError(t, err)
	require.False(t, updated, "somebody else's index")
	c.MaxTrailingLogs++
	_, err = w.Client.Operator().AutopilotSetConfiguration(c, nil)
	require.ErrorContains(t, err, "there is one, and its configuration cannot be changed")
	require.Equal(t, http.StatusBadRequest, w.do(t, http.MethodPut, "/v1/operator/autopilot/configuration?cas=x", "{}").status)
	health, _, err := w.Client.Operator().AutopilotServerHealth(nil)
	require.NoError(t, err)
	require.True(t, health.Healthy)
	require.Len(t, health.Servers, 1)
}

func TestTheSchedulersWorkerIsOne(t *testing.T) {
	w := newWorld(t)
	c, err := w.Client.Agent().GetSchedulerWorkerConfig(nil)
	require.NoError(t, err)
	require.Equal(t, 1, c.NumSchedulers)
	status := func() string {
		workers, err := w.Client.Agent().GetSchedulerWorkersInfo(nil)
		require.NoError(t, err)
		require.Len(t, workers.Schedulers, 1)
		_, err = time.Parse(time.RFC3339Nano, workers.Schedulers[0].Started)
		require.NoError(t, err)
		return workers.Schedulers[0].Status
	}
	require.Equal(t, "Started", status())
	_, _, err = w.Client.Operator().SchedulerSetConfiguration(&nomad.SchedulerConfiguration{PauseEvalBroker: true}, nil)
	require.NoError(t, err)
	require.Equal(t, "Paused", status())
	_, err = w.Client.Agent().SetSchedulerWorkerConfig(nomad.SchedulerWorkerPoolArgs{NumSchedulers: 4, EnabledSchedulers: []string{"_core"}}, nil)
	require.ErrorContains(t, err, "one evaluation is worked on after another")
}

func TestGossipHasNoKeys(t *testing.T) {
	w := newWorld(t)
	const want = "gossip has no keys: a node is its own server, and talks to no others"
	_, err := w.Client.Agent().ListKeys()
	require.ErrorContains(t, err, want)
	for _, change := range []func(string) (*nomad.KeyringResponse, error){w.Client.Agent().InstallKey, w.Client.Agent().UseKey, w.Client.Agent().RemoveKey} {
		_, err := change("MDEyMzQ1Njc4OWFiY2RlZg==")
		require.ErrorContains(t, err, want)
	}
}

// TestWhatOperatorDebugAsksForIsAnswered makes the calls of the stock `operator debug`, for the
// agent as a client and as a server.
func TestWhatOperatorDebugAsksForIsAnswered(t *testing.T) {
	a := agenttest.Start(t, agenttest.Options{Config: "enable_debug = true"})
	w := &world{a, t, http.DefaultClient}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	known, err := w.Client.Agent().Members()
	require.NoError(t, err)
	nodes, _, err := w.Client.Nodes().PrefixListOpts("", &nomad.QueryOptions{AllowStale: true})
	require.NoError(t, err)
	require.Len(t, nodes, 1)
	var paths []string
	for _, of := range []string{"&server_id=" + known.Members[0].Name, "&node_id=" + nodes[0].ID} {
		paths = append(paths, "agent/host?stale"+of)
		for _, profile := range []string{"goroutine", "heap", "threadcreate"} {
			for debug := range 3 {
				paths = append(paths, "agent/pprof/"+profile+"?seconds=1&debug="+strconv.Itoa(debug)+of)
			}
		}
	}
	// There is one of these at a time.
	paths = append(paths, "agent/pprof/profile?seconds=1&server_id="+known.Members[0].Name, "agent/pprof/trace?seconds=1&node_id="+nodes[0].ID)
	paths = append(paths, "agent/self", "namespaces", "regions", "status/leader", "operator/raft/configuration", "operator/scheduler/configuration",
		"operator/autopilot/health", "jobs", "deployments", "evaluations", "allocations", "nodes", "plugins?type=csi", "volumes?type=csi", "metrics")
	done := make(chan struct{})
	for _, path := range paths {
		go func() { // two of them take a second
			defer func() { done <- struct{}{} }()
			r := w.get(t, "/v1/"+path)
			if r.status != http.StatusOK || r.body == "" {
				t.Errorf("%s: %d %s", path, r.status, r.body)
			}
		}()
	}
	for range paths {
		<-done
	}
	require.Equal(t, http.StatusNoContent, w.get(t, "/v1/operator/license").status, "as the community edition answers")
}
