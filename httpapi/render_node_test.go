package httpapi

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func TestANodesCoresAndNetworksAreTold(t *testing.T) {
	n := &structs.Node{
		Attributes: map[string]string{
			"unique.network.ip-address": "192.0.2.9", "cpu.frequency": "2500", "numa.node0.cores": "0-1", "numa.node1.cores": "2-3",
		},
		Resources: structs.NodeResources{Cores: 4}, Sockets: []int{0, 0, 1, 1},
		ReservedCores: structs.Ranges{{First: 3, Last: 3}}, ReservedPorts: structs.Ranges{{First: 22, Last: 22}},
		Interface: structs.NetworkInterface{Name: "eth0", MAC: "02:00:00:00:00:01"},
		HostNetworks: []structs.HostNetwork{
			{Name: "none", Interface: "eth9"}, {Name: "public", Interface: "eth0", Address: "2001:db8::9"},
		},
		NetworkModes:  map[string]string{"bridge": "", "cni/broken": "it lacks something"},
		StatusUpdated: time.Unix(1795228594, 5),
	}
	b, err := json.Marshal(answeredNode(n))
	require.NoError(t, err)
	var out struct {
		StatusUpdatedAt int64
		NodeResources   struct {
			Cpu          struct{ ReservableCpuCores []int }
			NodeNetworks []wireNodeNetwork
			Processors   wireProcessors
		}
		ReservedResources struct {
			Cpu struct{ ReservedCpuCores []int }
		}
	}
	require.NoError(t, json.Unmarshal(b, &out))
	require.EqualValues(t, 1795228594, out.StatusUpdatedAt)
	require.Equal(t, []int{0, 1, 2}, out.NodeResources.Cpu.ReservableCpuCores)
	require.Equal(t, []int{3}, out.ReservedResources.Cpu.ReservedCpuCores)
	require.Equal(t, []wireNodeNetwork{
		{Mode: "bridge"},
		{Mode: "host", Device: "eth0", MacAddress: "02:00:00:00:00:01", Addresses: []wireNodeAddress{
			{Alias: "default", Address: "192.0.2.9", Family: "ipv4", ReservedPorts: "22"}, {Alias: "public", Address: "2001:db8::9", Family: "ipv6"},
		}},
	}, out.NodeResources.NodeNetworks)
	require.Equal(t, []int{0, 1}, out.NodeResources.Processors.Topology.Nodes)
	require.Equal(t, wireCore{ID: 3, SocketID: 1, NodeID: 1, Disable: true, Grade: true, BaseSpeed: 2500}, out.NodeResources.Processors.Topology.Cores[3])
}
