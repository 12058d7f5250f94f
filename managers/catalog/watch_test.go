package catalog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

// TestAFileIsNoticedByNotification: what tells of it is the kernel, not the next look at the directory.
func TestAFileIsNoticedByNotification(t *testing.T) {
	found := make(chan []string, 100)
	w := newWatcher(t.TempDir(), hclog.NewNullLogger())
	w.trust = time.Hour
	w.found, w.state = func(_, ready, _ []string) { found <- ready }, func(string) {}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.run(ctx) })
	defer running.Wait()
	defer cancel()
	require.Empty(t, <-found, "the first look")
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, ".x"), []byte("\x00asm\x01\x00\x00\x00"), 0o600))
	require.NoError(t, os.Rename(filepath.Join(w.dir, ".x"), filepath.Join(w.dir, "x.wasm")))
	require.Eventually(t, func() bool { return len(found) > 0 && slices.Equal([]string{"x.wasm"}, <-found) }, 5*time.Minute, time.Millisecond)
}

func TestFilesBeyondTheLimitAreCounted(t *testing.T) {
	dir := t.TempDir()
	for i := range maxPluginFiles {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d.wasm", i)), nil, 0o644))
	}
	marks, problem := readMarks(dir, nil)
	require.Len(t, marks, maxPluginFiles)
	require.Empty(t, problem)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "z.wasm"), nil, 0o644))
	marks, problem = readMarks(dir, nil)
	require.Len(t, marks, maxPluginFiles)
	require.Equal(t, "1 plugin files are not loaded: the limit is 256", problem)
	require.NotContains(t, marks, "z.wasm")

	s := Settings{Plugins: map[string]PluginSettings{"z": {}, "y": {File: "yy.wasm"}}}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "yy.wasm"), nil, 0o644))
	marks, problem = readMarks(dir, s.means)
	require.Len(t, marks, maxPluginFiles)
	require.Equal(t, "2 plugin files are not loaded: the limit is 256", problem)
	require.Contains(t, marks, "z.wasm", "no number of other files keeps out the one that is meant")
	require.Contains(t, marks, "yy.wasm")
}
