package schedule

import (
	"slices"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wasmnode/wasmnode/structs"
)

// onNetwork has a group ask for a dynamic port on a host network, or a static one.
func onNetwork(network string, static int) func(*nomad.Job) {
	return func(j *nomad.Job) {
		port := nomad.Port{Label: "http", HostNetwork: network, Value: static}
		r := &nomad.NetworkResource{}
		if static > 0 {
			r.ReservedPorts = []nomad.Port{port}
		} else {
			r.DynamicPorts = []nomad.Port{port}
		}
		j.TaskGroups[0].Networks = append(j.TaskGroups[0].Networks, r)
	}
}

func networkedNode() *structs.Node {
	n := testNode("n1")
	n.ReservedPorts = structs.Ranges{{First: 22, Last: 22}}
	n.HostNetworks = []structs.HostNetwork{
		{Name: "gone"},
		{Name: "public", Address: "203.0.113.7", ReservedPorts: structs.Ranges{{First: 80, Last: 80}, {First: structs.MinDynamicPort, Last: structs.MaxDynamicPort - 1}}},
	}
	return n
}

func TestPortsAreOnTheNetworkThatTheyName(t *testing.T) {
	for name, tt := range map[string]struct {
		network string
		static  int
		ip      string
		port    int
		failed  structs.PlacementMetrics
	}{
		"the machine's address":   {network: "", static: 80, ip: "10.0.0.1", port: 80},
		"the same by its name":    {network: "default", static: 80, ip: "10.0.0.1", port: 80},
		"another":                 {network: "public", static: 443, ip: "203.0.113.7", port: 443},
		"the only one not kept":   {network: "public", ip: "203.0.113.7", port: structs.MaxDynamicPort},
		"kept back":               {static: 22, failed: structs.PlacementMetrics{DimensionExhausted: map[string]int{"network: reserved port collision http=22": 1}}},
		"kept back on the other":  {network: "public", static: 80, failed: structs.PlacementMetrics{DimensionExhausted: map[string]int{"network: reserved port collision http=80": 1}}},
		"none of that name":       {network: "private", failed: structs.PlacementMetrics{ConstraintFiltered: map[string]int{`missing host network "private" for port "http"`: 1}}},
		"one that has no address": {network: "gone", failed: structs.PlacementMetrics{ConstraintFiltered: map[string]int{`missing host network "gone" for port "http"`: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, networkedNode())
			res := c.schedule(testJob("service", onNetwork(tt.network, tt.static)), false)
			if tt.ip == "" {
				require.Empty(t, res.Place)
				require.Equal(t, tt.failed.DimensionExhausted, res.Failed["g"].DimensionExhausted)
				require.Equal(t, tt.failed.ConstraintFiltered, res.Failed["g"].ConstraintFiltered)
				return
			}
			require.Equal(t, []structs.AllocatedPort{{Label: "http", HostIP: tt.ip, Value: tt.port}}, res.Place[0].Resources.Ports)
		})
	}
}

// TestCoresAreOneAllocationsAlone has random jobs ask for cores of a node that keeps some.
func TestCoresAreOneAllocationsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := testNode("n1")
		n.Resources = structs.NodeResources{CPUMHz: 8000, Cores: 8, MemoryMB: 8000, DiskMB: 8000}
		for _, core := range rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 0, 4, rapid.ID[int]).Draw(t, "kept") {
			n.ReservedCores = append(n.ReservedCores, structs.Range{First: core, Last: core})
		}
		n.Reserved.CPUMHz = n.ReservedCores.CountBelow(n.Resources.Cores) * 1000
		c := newCluster(t, n)
		given := 0
		for i := range rapid.IntRange(1, 6).Draw(t, "jobs") {
			wants := rapid.IntRange(1, 4).Draw(t, "cores")
			res := c.schedule(testJob("service", func(j *nomad.Job) {
				id := string(rune('a' + i))
				j.ID, j.TaskGroups[0].Tasks[0].Resources = &id, &nomad.Resources{Cores: &wants, MemoryMB: new(10)}
			}), false)
			fits := given+wants <= n.Resources.Cores-n.ReservedCores.CountBelow(n.Resources.Cores)
			require.Equal(t, fits, len(res.Place) == 1)
			if fits {
				given += wants
				require.Equal(t, wants*1000, res.Place[0].Resources.Tasks["t"].CPUMHz, "what its cores have")
			}
		}
		var all []int
		for _, a := range c.sorted() {
			for _, core := range a.Resources.Tasks["t"].Cores {
				require.False(t, n.ReservedCores.Has(core))
				require.NotContains(t, all, core)
				require.Less(t, core, n.Resources.Cores)
				all = append(all, core)
			}
		}
		require.True(t, slices.IsSorted(all), "the lowest first")
	})
}
