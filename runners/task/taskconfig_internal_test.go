package task

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func TestATasksCPUIsAShareOfTheNodes(t *testing.T) {
	for _, c := range []struct{ task, node, cores, want int }{
		{500, 4000, 2, 250}, {1, 4000, 2, 1}, {4000, 4000, 2, 2000}, {100, 0, 2, 0}, {0, 4000, 2, 0}, {100, 3000, 1, 34},
	} {
		got := resourcesOf(&structs.TaskResources{CPUMHz: c.task}, &structs.Node{Resources: structs.NodeResources{CPUMHz: c.node, Cores: c.cores}})
		require.EqualValues(t, c.want, got.CpuThousandths, "%v", c)
	}
}

func TestATaskMayUseItsOwnCoresOrThoseThatAreNobodys(t *testing.T) {
	node := &structs.Node{Resources: structs.NodeResources{Cores: 8}, ReservedCores: structs.Ranges{{First: 0, Last: 1}}}
	for want, c := range map[string]struct{ own, reserved []int }{
		"2-7": {}, "3,5-7": {reserved: []int{4, 2}}, "4,6": {own: []int{6, 4}, reserved: []int{4, 2, 6}}, "": {reserved: []int{2, 3, 4, 5, 6, 7}},
	} {
		r := &Runner{cfg: Config{Task: "web", Node: func() *structs.Node { return node }}}
		if c.reserved != nil {
			r.cfg.ReservedCores = func() []int { return c.reserved }
		}
		alloc := &structs.Allocation{Resources: structs.AllocatedResources{Tasks: map[string]*structs.TaskResources{"web": {Cores: c.own}}}}
		require.Equal(t, want, r.resourcesMessage(alloc).Cpuset)
	}
}
