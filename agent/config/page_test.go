package config

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page's file is one that an agent takes, and what it calls defaults are.
func TestThePageOnConfigurationIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(page), "```hcl\n")
	text, _, found := strings.Cut(rest, "```")
	require.True(t, found)
	c := Default()
	require.NoError(t, c.Load(write(t, t.TempDir(), "node.hcl", text)))
	require.NoError(t, c.Validate())
	require.Equal(t, 200, c.Plugins["wasi"].Grant.Wasm.MaxPrograms)

	want := Default()
	c.Name, c.Client.NodeClass, c.Client.Meta, c.Client.Reserved = want.Name, "", want.Client.Meta, Resources{}
	c.Client.HostNetworks, c.Client.HostVolumes, c.Client.ReservedPorts, c.Client.ReservedCores = nil, nil, "", ""
	c.Access.Hosts = nil
	c.Client.AllowedDrivers, c.Client.BlockedDrivers, c.Plugins = nil, nil, want.Plugins
	require.Equal(t, want, c)
}

// The configurations of the page on letting others in are ones that an agent takes.
func TestTheConfigurationsOfTheHowToAreTaken(t *testing.T) {
	page, err := os.ReadFile("../../docs/secure-a-node.md")
	require.NoError(t, err)
	blocks := strings.Split(string(page), "```hcl\n")[1:]
	require.Len(t, blocks, 2)
	for _, block := range blocks {
		text, _, _ := strings.Cut(block, "```")
		c := Default()
		require.NoError(t, c.Load(write(t, t.TempDir(), "node.hcl", text)))
		require.NoError(t, c.Validate())
	}
}

// The sinks of the page are ones that an agent takes, and what it calls defaults are.
func TestTheEventSinksOfThePageAreTaken(t *testing.T) {
	page, err := os.ReadFile("../../docs/monitoring.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(page), "```hcl\n")
	text, _, found := strings.Cut(rest, "```")
	require.True(t, found)
	c := Default()
	require.NoError(t, c.Load(write(t, t.TempDir(), "node.hcl", text)))
	require.NoError(t, c.Validate())
	require.Len(t, c.EventSinks, 3)
	plain := Default()
	require.NoError(t, plain.Load(write(t, t.TempDir(), "node.hcl", `
event_sink "pager" {
  type        = "webhook"
  url         = "https://events.example.com/hook"
  topics      = ["Allocation", "Deployment:web"]
  secret_file = "/etc/wasmnode/webhook.key"
  headers     = { Authorization = "Bearer …" }
}
event_sink "disk" {
  type = "file"
  path = "/var/log/wasmnode/events"
}
event_sink "journal" {
  type = "journal"
}`)))
	require.Equal(t, plain.EventSinks, c.EventSinks)
}
