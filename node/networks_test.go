package node

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func TestHostNetworksGetTheMachinesAddressesOnThem(t *testing.T) {
	interfaces, err := net.Interfaces()
	require.NoError(t, err)
	loopback := ""
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback != 0 {
			loopback = i.Name
		}
	}
	require.NotEmpty(t, loopback)
	networks := []structs.HostNetwork{
		{Name: "by cidr", CIDR: "127.0.0.0/8"}, {Name: "by interface", Interface: loopback}, {Name: "by both", CIDR: "127.0.0.0/8", Interface: loopback},
		{Name: "no such", CIDR: "198.51.100.0/24"}, {Name: "no interface", Interface: "none0"}, {Name: "not there", CIDR: "127.0.0.0/8", Interface: "none0"},
	}
	found := withAddresses(networks)
	for i, address := range []string{"127.0.0.1", "127.0.0.1", "127.0.0.1", "", "", ""} {
		require.Equal(t, address, found[i].Address, found[i].Name)
	}
	require.Empty(t, networks[0].Address, "what was configured is not changed")
	require.Nil(t, withAddresses(nil))
}
