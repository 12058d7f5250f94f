package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsWrongWithNetworksAndListsIsTold(t *testing.T) {
	for _, tt := range []struct {
		change func(*Client)
		fault  string
	}{
		{func(c *Client) { c.ReservedPorts = "0" }, `client.reserved: reserved_ports: "0" is not within 1-65535`},
		{func(c *Client) { c.ReservedCores = "a" }, `client.reserved: cores: "a" is neither a number nor a range such as 8000-8100`},
		{func(c *Client) { c.BridgeName = "sixteen-letters-" }, `client.bridge_network_name: "sixteen-letters-" is not the name of an interface: at most 15 letters, digits, '.', '_' and '-'`},
		{func(c *Client) { c.BridgeSubnet = "10.0.0.0/30" }, `client.bridge_network_subnet: "10.0.0.0/30" is not a network of IPv4 with room for addresses, such as 172.26.80.0/20`},
		{func(c *Client) { c.BridgeSubnet = "fd00::/64" }, `client.bridge_network_subnet: "fd00::/64" is not a network of IPv4 with room for addresses, such as 172.26.80.0/20`},
		{func(c *Client) { c.HostNetworks = map[string]HostNetwork{"a": {}} }, `client.host_network "a": it has neither cidr nor interface`},
		{func(c *Client) { c.HostNetworks = map[string]HostNetwork{"a": {CIDR: "10.0.0.1"}} }, `client.host_network "a": cidr: "10.0.0.1" is not a network such as 10.0.0.0/8`},
		{func(c *Client) {
			c.HostNetworks = map[string]HostNetwork{"a": {CIDR: "10.0.0.0/8", ReservedPorts: "9-1"}}
		},
			`client.host_network "a": reserved_ports: "9-1" is not within 1-65535`},
		{func(c *Client) { c.HostNetworks = map[string]HostNetwork{"a b": {Interface: "eth0"}} },
			`client.host_network "a b": a network's name is a letter, then letters, digits, '_' or '-', at most 64 in all`},
	} {
		c := Default()
		tt.change(&c.Client)
		require.ErrorContains(t, c.Validate(), tt.fault)
	}
	c := Default()
	c.Client.HostNetworks = map[string]HostNetwork{"public": {CIDR: "::1/128"}, "b": {Interface: "eth0"}}
	require.NoError(t, c.Validate())
}
