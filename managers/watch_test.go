package managers

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

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
