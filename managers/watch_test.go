package managers

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

// TestAFileIsHeardOf: what tells of it is the kernel, not the next look at the directory.
func TestAFileIsHeardOf(t *testing.T) {
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
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, ".x"), recipe{Name: "x"}.module(t), 0o600))
	require.NoError(t, os.Rename(filepath.Join(w.dir, ".x"), filepath.Join(w.dir, "x.wasm")))
	require.Eventually(t, func() bool { return len(found) > 0 && slices.Equal([]string{"x.wasm"}, <-found) }, patient, time.Millisecond)
}

func TestADirectoryMayBeLookedAtWithoutNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := NewCatalog(CatalogConfig{Dir: t.TempDir(), Logger: hclog.NewNullLogger(), Loader: &fakeLoader{}, LookEvery: time.Minute})
		require.NoError(t, err)
		c.Start()
		synctest.Wait() // nothing but a clock is waited for
		require.NoError(t, os.WriteFile(filepath.Join(c.cfg.Dir, ".x.wasm"), nil, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(c.cfg.Dir, "broken.wasm"), []byte("no recipe"), 0o600))
		time.Sleep(50 * time.Second)
		synctest.Wait()
		require.Empty(t, c.Status())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, c.Status(), 1)
		c.Shutdown()
	})
}
