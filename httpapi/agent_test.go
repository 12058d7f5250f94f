package httpapi_test

import (
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/api/contexts"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent"
)

func TestTheAgentDescribesItself(t *testing.T) {
	w := newWorld(t, "mock")
	self, err := w.Client.Agent().Self()
	require.NoError(t, err)
	require.Equal(t, "global", self.Config["Region"])
	require.Equal(t, "dc1", self.Config["Datacenter"])
	require.Equal(t, map[string]any{"Version": agent.Version}, self.Config["Version"])
	require.Equal(t, false, self.Config["UI"].(map[string]any)["ShowCLIHints"], "else Nomad's command line prints links")
	nodes, _, err := w.Client.Nodes().List(nil)
	require.NoError(t, err)
	require.Len(t, nodes, 1)
	require.Equal(t, nodes[0].ID, self.Stats["client"]["node_id"])
	require.Equal(t, "0", self.Stats["raft"]["num_peers"], "nomad check reads it")
	require.Equal(t, "alive", self.Member.Status)

	health, err := w.Client.Agent().Health()
	require.NoError(t, err)
	require.True(t, health.Client.Ok)
	require.True(t, health.Server.Ok)

	members, err := w.Client.Agent().Members()
	require.NoError(t, err)
	require.Len(t, members.Members, 1)
	require.Equal(t, self.Member, *members.Members[0])
	_, port, err := net.SplitHostPort(strings.TrimPrefix(w.URL, "http://"))
	require.NoError(t, err)
	require.Equal(t, port, strconv.Itoa(int(self.Member.Port)))
	require.Equal(t, map[string]string{
		"build": agent.Version, "dc": "dc1", "region": "global", "role": "nomad", "port": port, "bootstrap": "1",
	}, self.Member.Tags)

	leader, err := w.Client.Status().Leader()
	require.NoError(t, err)
	require.Equal(t, w.URL, "http://"+leader)

	regions, err := w.Client.Regions().List()
	require.NoError(t, err)
	require.Equal(t, []string{"global"}, regions)

	namespaces, _, err := w.Client.Namespaces().List(nil)
	require.NoError(t, err)
	require.Len(t, namespaces, 1)
	require.Equal(t, "default", namespaces[0].Name)

	pools, _, err := w.Client.NodePools().List(nil)
	require.NoError(t, err)
	require.Len(t, pools, 2)
	require.Equal(t, "all", pools[0].Name)
	require.Equal(t, nodes[0].NodePool, pools[1].Name)
	pools, _, err = w.Client.NodePools().PrefixList("other", nil)
	require.NoError(t, err)
	require.Empty(t, pools)
}

func TestPluginsAreListed(t *testing.T) {
	w := newWorld(t, "mock")
	list := w.json(t, "/v1/agent/plugins").([]any)
	require.Len(t, list, 1)
	plugin := list[0].(map[string]any)
	require.Equal(t, "mock_driver", plugin["Name"])
	require.Equal(t, "mock.wasm", filepath.Base(plugin["File"].(string)))

	described := w.json(t, "/v1/agent/plugin/mock_driver/schema").(map[string]any)
	require.Equal(t, plugin["Digest"], described["Digest"])
	require.Contains(t, described["TaskConfigSchema"], "run_for")
	require.Contains(t, described["PluginConfigSchema"], "health_description")
	_, err := w.Client.Raw().Query("/v1/agent/plugin/none/schema", nil, nil)
	require.ErrorContains(t, err, `404 (no plugin "none" is in service)`)

	none := newWorld(t)
	require.Equal(t, []any{}, none.json(t, "/v1/agent/plugins"))
}

func TestNodesAreListedReadAndMadeIneligible(t *testing.T) {
	w := newWorld(t, "mock")
	nodes, meta, err := w.Client.Nodes().List(nil)
	require.NoError(t, err)
	require.NotZero(t, meta.LastIndex)
	stub := nodes[0]
	require.Equal(t, "ready", stub.Status)
	require.True(t, stub.Drivers["mock_driver"].Healthy)

	node, _, err := w.Client.Nodes().Info(stub.ID, nil)
	require.NoError(t, err)
	require.Equal(t, stub.Name, node.Name)
	require.Equal(t, w.URL, "http://"+node.HTTPAddr, "where Nomad's command line goes for logs")
	require.Positive(t, node.NodeResources.Memory.MemoryMB)
	require.NotNil(t, node.ReservedResources)
	require.Contains(t, node.Attributes, "driver.mock_driver")
	require.NotEmpty(t, node.Events)

	a := w.run(t, mock("on-the-node", nil), nomad.AllocClientStatusRunning)
	allocs, _, err := w.Client.Nodes().Allocations(stub.ID, nil)
	require.NoError(t, err)
	require.Len(t, allocs, 1)
	require.Equal(t, a.ID, allocs[0].ID)
	require.NotNil(t, allocs[0].Job, "this list has allocations in full")

	for _, eligible := range []bool{false, true} {
		_, err = w.Client.Nodes().ToggleEligibility(stub.ID, eligible, nil)
		require.NoError(t, err)
		node, _, err = w.Client.Nodes().Info(stub.ID, nil)
		require.NoError(t, err)
		require.Equal(t, eligible, node.SchedulingEligibility == nomad.NodeSchedulingEligible)
	}

	stats, err := w.Client.Nodes().Stats(stub.ID, nil)
	require.NoError(t, err)
	require.Positive(t, stats.Memory.Total)
	require.NotEmpty(t, stats.CPU)
}

func TestSearchFindsByPrefix(t *testing.T) {
	w := newWorld(t, "mock")
	a := w.run(t, mock("findable", nil), nomad.AllocClientStatusRunning)
	for _, c := range []struct {
		name   string
		prefix string
		in     contexts.Context
		want   map[contexts.Context][]string
	}{
		{"a job", "find", contexts.All, map[contexts.Context][]string{contexts.Jobs: {"findable"}}},
		{"a job among jobs", "find", contexts.Jobs, map[contexts.Context][]string{contexts.Jobs: {"findable"}}},
		{"a job among nodes", "find", contexts.Nodes, map[contexts.Context][]string{}},
		{"an allocation", a.ID[:13], contexts.All, map[contexts.Context][]string{contexts.Allocs: {a.ID}}},
		{"an evaluation", a.EvalID, contexts.Evals, map[contexts.Context][]string{contexts.Evals: {a.EvalID}}},
		{"a node", a.NodeID[:8], contexts.Nodes, map[contexts.Context][]string{contexts.Nodes: {a.NodeID}}},
		{"nothing", "no such thing", contexts.All, map[contexts.Context][]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, _, err := w.Client.Search().PrefixSearch(c.prefix, c.in, nil)
			require.NoError(t, err)
			if c.in != contexts.All {
				require.Contains(t, found.Matches, c.in, "also where there is none")
			}
			maps.DeleteFunc(found.Matches, func(_ contexts.Context, ids []string) bool { return len(ids) == 0 })
			require.Equal(t, c.want, found.Matches)
		})
	}
}

func TestGarbageIsCollectedOnRequest(t *testing.T) {
	w := newWorld(t, "mock")
	done := w.run(t, mock("done", map[string]any{"run_for": "1ms"}), nomad.AllocClientStatusComplete)
	runs := w.run(t, mock("runs", nil), nomad.AllocClientStatusRunning)
	require.NoError(t, w.Client.System().GarbageCollect())
	require.Equal(t, http.StatusNotFound, w.get(t, "/v1/job/done").status)
	require.Equal(t, http.StatusNotFound, w.get(t, "/v1/allocation/"+done.ID).status)
	// The node hears later than this client that its report of the end was taken.
	require.Eventually(t, func() bool {
		return w.get(t, "/v1/client/fs/ls/"+done.ID).status == http.StatusNotFound
	}, time.Minute, time.Millisecond)
	require.Equal(t, http.StatusOK, w.get(t, "/v1/allocation/"+runs.ID).status)
	require.Equal(t, http.StatusOK, w.get(t, "/v1/client/fs/ls/"+runs.ID).status)
}

func TestTheConfigurationIsReadAgainOnRequest(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(filepath.Dir(w.Data), "node.hcl")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, w.Client.Agent().Reload(nil, nil))
	require.NoError(t, os.WriteFile(file, []byte(string(text)+"server { event_buffer_size = 0 }\n"), 0o600))
	err = w.Client.Agent().Reload(nil, nil)
	require.ErrorContains(t, err, "the configuration was not reloaded, the one before stays in force")
	require.ErrorContains(t, err, "event_buffer_size")
	require.Contains(t, w.get(t, "/v1/agent/health").body, "was not reloaded", "whoever asks for the health is told, too")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	require.NoError(t, w.Client.Agent().Reload(nil, nil))
	require.NotContains(t, w.get(t, "/v1/agent/health").body, "was not reloaded")
}
