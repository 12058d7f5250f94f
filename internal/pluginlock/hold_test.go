package pluginlock_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/pluginlock"
)

func TestWhoWaitsForADirectoryIsToldWhoHasIt(t *testing.T) {
	dir := t.TempDir()
	release, err := pluginlock.Hold(t.Context(), dir)
	require.NoError(t, err)
	ended, end := context.WithCancel(t.Context())
	end()
	_, err = pluginlock.Hold(ended, dir)
	require.Regexp(t, fmt.Sprintf(`^.* is being changed by process %d \(.+\): try again when it is done, or end it$`, os.Getpid()), err.Error())

	held := make(chan error)
	go func() {
		release, err := pluginlock.Hold(t.Context(), dir)
		if err == nil {
			release()
		}
		held <- err
	}()
	release()
	require.NoError(t, <-held)
	_, err = pluginlock.Hold(t.Context(), filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestWhatWasLeftBehindIsRemovedAndWhatIsUsedIsNot(t *testing.T) {
	dir := t.TempDir()
	used, err := pluginlock.Stage(dir, "used.wasm", nil)
	require.NoError(t, err)
	defer used.Drop()
	stale := []string{".a.wasm.sig.unfinished", ".a.wasm.unfinished", ".plugins.lock.unfinished"}
	for _, name := range append([]string{".hidden", ".a.text.unfinished", "b.wasm.unfinished", "a.wasm"}, stale...) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".dir.wasm.unfinished"), 0o700))
	removed, err := pluginlock.Sweep(dir)
	require.NoError(t, err)
	require.Equal(t, stale, removed)
	require.NoError(t, used.Commit())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, []string{".a.text.unfinished", ".dir.wasm.unfinished", ".hidden", "a.wasm", "b.wasm.unfinished", "used.wasm"}, names)
	_, err = pluginlock.Sweep(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
