package node

import (
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func TestCoresAreReservedUntilTheirAllocationHasEnded(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.run("shared", "batch")
	w.awaitStatus("shared", structs.ClientRunning)
	require.Empty(t, w.node.reservedCores())
	w.run("own", "batch", func(j *nomad.Job) {
		j.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{Cores: new(1), MemoryMB: new(10)}
	})
	w.awaitStatus("own", structs.ClientRunning)
	require.Equal(t, []int{0}, w.node.reservedCores())
	_, err := w.embedded.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "own"})
	require.NoError(t, err)
	w.awaitStatus("own", structs.ClientComplete)
	require.Eventually(t, func() bool { return len(w.node.reservedCores()) == 0 }, time.Minute, time.Millisecond)
}
