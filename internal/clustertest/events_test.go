package clustertest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// TestServersKeepTheNodesEvents has plugins come, be refused and go, also while the server is away and
// over a kill of the agent, and asks the server what it was told of them.
func TestServersKeepTheNodesEvents(t *testing.T) {
	for _, binary := range binaries(t) {
		t.Run(filepath.Base(binary), func(t *testing.T) {
			s := startServers(t, binary, 1, "")[0]
			agent := startNode(t, "ours", "", s)
			node := s.ready(t, "ours")
			plugins := filepath.Join(filepath.Dir(agent.args[len(agent.args)-1]), "plugins")
			broken, mock := filepath.Join(plugins, "broken.wasm"), filepath.Join(plugins, "mock.wasm")
			require.NoError(t, os.WriteFile(broken, []byte("no module"), 0o600))
			s.told(t, node, "Plugin broken.wasm not taken")
			require.NoError(t, os.Remove(broken))
			require.NoError(t, os.WriteFile(mock, guestbuild.Plugin(t, "guest-examples/drivers/mock"), 0o600))
			eventually(t, "the driver to be known", func() (bool, string) {
				n, _, err := s.client.Nodes().Info(node, nil)
				return err == nil && n.Drivers["mock_driver"] != nil, fmt.Sprint(err)
			})
			s.end(syscall.SIGKILL)
			require.NoError(t, os.Remove(mock))
			s.start(t)
			s.awaitLeader(t)
			s.told(t, node, "Plugin broken.wasm not taken", "Driver removed")
			agent.end(syscall.SIGKILL)
			agent.start(t)
			require.NoError(t, os.WriteFile(broken, []byte("none either"), 0o600))
			s.told(t, node, "Plugin broken.wasm not taken", "Driver removed", "Plugin broken.wasm not taken")
		})
	}
}

// told waits until a server has events of a node that begin so, and nothing else of its plugins, in this order.
func (s *server) told(t *testing.T, node string, want ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("events %q", want), func() (bool, string) {
		n, _, err := s.client.Nodes().Info(node, nil)
		if err != nil {
			return false, err.Error()
		}
		var messages []string
		for _, e := range n.Events {
			if e.Subsystem == "Plugin" || e.Subsystem == "Driver" {
				messages = append(messages, e.Message)
			}
		}
		return slices.EqualFunc(messages, want, strings.HasPrefix), fmt.Sprintf("%q", messages)
	})
}
