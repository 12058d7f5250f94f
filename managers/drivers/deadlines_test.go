package drivers

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/managers/catalog"
)

// An author who does not know these has an engine that hangs be a fault of the plugin's.
func TestAuthorsAreToldHowLongAnOperationMayTake(t *testing.T) {
	page, err := os.ReadFile("../../abi/ABI.md")
	require.NoError(t, err)
	_, limits, found := strings.Cut(string(page), "\n## Limits\n")
	require.True(t, found)
	for operation, deadline := range map[string]time.Duration{
		"fingerprint": catalog.FingerprintDeadline, "driver_start_task": startDeadline, "driver_create_network": createNetworkDeadline,
		"driver_recover_task": recoverDeadline, "driver_destroy_task": destroyDeadline, "driver_destroy_network": destroyNetworkDeadline,
		"driver_stop_task": stopGrace, "driver_signal_task": signalDeadline, "driver_task_stats": statsDeadline, "driver_exec_task": execDeadline,
	} {
		_, row, found := strings.Cut(limits, "`"+operation+"`")
		require.True(t, found, operation)
		row, _, _ = strings.Cut(row, "\n")
		text := strings.TrimSuffix(deadline.String(), "m0s")
		if text != deadline.String() {
			text += " minutes"
		} else {
			text = strings.TrimSuffix(text, "s") + " s"
		}
		require.Contains(t, row, " "+text+" |", operation)
	}
}
