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
