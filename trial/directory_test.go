package trial_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/trial"
)

func TestAPluginsFileIsARegularOneWithinTheLimit(t *testing.T) {
	path := func(name string) string { return filepath.Join(t.TempDir(), name) }
	pipe, large := path("pipe.wasm"), path("large.wasm")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, err := trial.ReadFile(pipe)
	require.EqualError(t, err, pipe+": not a regular file", "and nobody waits for who writes to it")
	require.NoError(t, os.WriteFile(large, nil, 0o600))
	require.NoError(t, os.Truncate(large, int64(host.DefaultLimits().FileBytes)+1))
	_, err = trial.ReadFile(large)
	require.ErrorContains(t, err, large+": it has ")
}
