package process_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/workload/process"
)

// TestNothingIsLostWhileAProcessIsNotFollowed pauses a process that talks again and again,
// also while it ends.
func TestNothingIsLostWhileAProcessIsNotFollowed(t *testing.T) {
	w := newWorld(t)
	spec := w.start(`i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo $i; done; until [ -e enough ]; do :; done; exit 3`)
	pauses := 0
	for ended := false; !ended; pauses++ {
		if pauses == 5 {
			require.NoError(t, os.WriteFile(filepath.Join(spec.Process.Dir, "enough"), nil, 0o600))
		}
		h := w.s.Pause()
		encoded, err := json.Marshal(h)
		require.NoError(t, err)
		var read process.Handover
		require.NoError(t, json.Unmarshal(encoded, &read))
		if ended = len(read.Processes) == 0; !ended {
			require.GreaterOrEqual(t, len(read.Files()), 3)
			require.Equal(t, spec.ID, read.Processes[0].Spec.ID)
		}
		w.s.Resume()
	}
	exit := w.wait(spec)
	require.Equal(t, 3, exit.ExitCode)
	var want strings.Builder
	for i := range 20000 {
		fmt.Fprintln(&want, i+1)
	}
	require.Equal(t, want.String(), w.stdoutOf(spec))
	require.Greater(t, pauses, 5)
}
