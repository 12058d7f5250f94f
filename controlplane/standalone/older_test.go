package standalone

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/state/statetest"
	"github.com/wasmnode/wasmnode/structs"
)

// TestAnOlderAgentsControlPlaneIsRead opens what an agent of schema 1 left that knew no
// devices and was killed, and goes on with it. A later schema has to read it, too.
func TestAnOlderAgentsControlPlaneIsRead(t *testing.T) {
	s := open(t, statetest.Unpacked(t, "schema-1.db.gz"))
	require.Len(t, s.Jobs(), 2)
	web := s.JobAllocations("default", "web")
	require.Len(t, web, 1)
	require.Equal(t, structs.ClientRunning, web[0].ClientStatus)
	require.NotEmpty(t, web[0].TaskStates["task"].Events)
	once := s.JobAllocations("default", "once")
	require.Equal(t, structs.ClientFailed, once[0].ClientStatus)
	_, err := s.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "web"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.Allocation(web[0].ID).DesiredStatus == structs.DesiredStop }, time.Minute, time.Millisecond)
}
