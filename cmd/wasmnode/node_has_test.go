package main

import (
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func TestAReasonSaysWhatTheNodesHave(t *testing.T) {
	node := func(name, kernel string) *nomad.Node {
		return &nomad.Node{
			Name: name, Datacenter: "dc1", NodePool: "default", Drivers: map[string]*nomad.DriverInfo{"wasi": {Healthy: true}, "exec": {}, "mock_driver": {Healthy: true}},
			Meta: map[string]string{"rack": "r1"}, Attributes: map[string]string{"kernel.name": kernel},
			NodeResources:     &nomad.NodeResources{Cpu: nomad.NodeCpuResources{CpuShares: 4000, TotalCpuCores: 4}, Memory: nomad.NodeMemoryResources{MemoryMB: 2000}},
			ReservedResources: &nomad.NodeReservedResources{Memory: nomad.NodeReservedMemoryResources{MemoryMB: 500}},
		}
	}
	one := []*nomad.Node{node("a", "linux")}
	many := []*nomad.Node{one[0], node("b", "plan9"), node("c", "linux"), node("d", "linux")}
	m := &nomad.AllocationMetric{
		NodesEvaluated: 1, NodesExhausted: 1, DimensionExhausted: map[string]int{"memory": 1, "devices: gpu: 1 asked for, 0 free": 1},
		ConstraintFiltered: map[string]int{
			"${attr.kernel.name} = windows": 1, "${meta.zone} is_set ": 1, "missing drivers": 1, "big = ${node.datacenter}": 1,
		},
	}
	require.Equal(t, []string{
		`Constraint "${attr.kernel.name} = windows": 1 nodes excluded by filter (node "a" has "linux")`,
		`Constraint "${meta.zone} is_set ": 1 nodes excluded by filter (node "a" has no meta.zone)`,
		`Constraint "big = ${node.datacenter}": 1 nodes excluded by filter (node "a" has "dc1")`,
		`Constraint "missing drivers": 1 nodes excluded by filter (node "a" has mock_driver, wasi)`,
		"Resources exhausted on 1 nodes",
		`Dimension "devices: gpu: 1 asked for, 0 free" exhausted on 1 nodes`,
		`Dimension "memory" exhausted on 1 nodes (node "a" has 1500 MB)`,
	}, placementReasons(m, one))
	require.Equal(t, []string{`No nodes were eligible for evaluation (node "a" is in datacenter "dc1" and node pool "default")`},
		placementReasons(&nomad.AllocationMetric{}, one))
	require.Equal(t, []string{"No nodes were eligible for evaluation"}, placementReasons(&nomad.AllocationMetric{}, nil))
	one[0].Drivers = nil
	require.Equal(t, ` (node "a" has none that is healthy)`, hasForConstraint(one, missingDrivers))
	require.Equal(t, ` (node "a" has "linux", node "b" has "plan9", node "c" has "linux", and 1 more)`, hasForConstraint(many, "${attr.kernel.name} = x"))
	require.Empty(t, hasForConstraint(nil, "${attr.kernel.name} = x"))
	for _, text := range []string{"", "${", "${}", "${attr", "distinct_hosts"} {
		require.NotPanics(t, func() { hasForConstraint(one, text) }, text)
	}
}
