package drivers

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/internal/catalogtest"
	"github.com/wasmnode/wasmnode/state"
)

// agentsOnOneStore runs a test whose agents come one after another on the same file.
func agentsOnOneStore(t *testing.T, test func(t *testing.T, next func() *world, owed func() []state.NetworkRelease)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "client.db")
	synctest.Test(t, func(t *testing.T) {
		store, err := state.Open(path, state.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		var last *world
		next := func() *world {
			if last != nil {
				last.manager.Shutdown()
			}
			last = newWorld(t, func(c *Config) { c.Store = store })
			return last
		}
		test(t, next, func() []state.NetworkRelease {
			synctest.Wait()
			left, err := store.Drivers()
			require.NoError(t, err)
			require.NotNil(t, left)
			return left.Owed
		})
	})
}

// networking is a driver that makes networks, and what it is asked to let go of.
func networking() (p *catalogtest.Plugin, removed func() []string) {
	p = catalogtest.NewPlugin()
	p.Capabilities = &wasmnodev1.DriverCapabilities{CreatesNetworks: true}
	var all []string
	p.On(abi.OpDriverDestroyNetwork, func(_ context.Context, c host.Call) error {
		all = append(all, c.Request.(*wasmnodev1.DriverDestroyNetworkRequest).AllocId)
		return nil
	})
	return p, func() []string {
		synctest.Wait()
		return all
	}
}

func TestANetworkGoesWhenItsDriverIsThereAgain(t *testing.T) {
	agentsOnOneStore(t, func(t *testing.T, next func() *world, owed func() []state.NetworkRelease) {
		w := next()
		require.ErrorContains(t, w.manager.DestroyNetwork(t.Context(), "fake", "a"), `driver "fake" is not there yet`)
		require.Error(t, w.manager.DestroyNetwork(t.Context(), "fake", "a"), "said twice, it is owed once")
		require.Error(t, w.manager.DestroyNetwork(t.Context(), "another", "b"))

		w = next() // the agent was killed meanwhile
		other := state.NetworkRelease{Driver: "another", AllocID: "b"}
		require.Equal(t, []state.NetworkRelease{{Driver: "fake", AllocID: "a"}, other}, owed())
		p, removed := networking()
		u := w.mustLoad(p, nil)
		require.Equal(t, []string{"a"}, removed(), "as soon as the driver is there")
		require.Equal(t, []state.NetworkRelease{other}, owed())

		u.Remove("its file is gone")
		require.Error(t, w.manager.DestroyNetwork(t.Context(), "fake", "c"))
		p, removed = networking()
		w.mustLoad(p, nil)
		require.Equal(t, []string{"c"}, removed(), "what was removed is forgotten")
		require.Equal(t, []state.NetworkRelease{other}, owed())
	})
}

func TestANetworkIsRemovedUntilThatSucceeds(t *testing.T) {
	agentsOnOneStore(t, func(t *testing.T, next func() *world, owed func() []state.NetworkRelease) {
		w := next()
		p, removed := networking()
		well := p.Ops[abi.OpDriverDestroyNetwork]
		p.On(abi.OpDriverDestroyNetwork, func(context.Context, host.Call) error { return errors.New("the engine is down") })
		w.mustLoad(p, nil)
		require.ErrorContains(t, w.manager.DestroyNetwork(t.Context(), "fake", "a"), "the engine is down")
		time.Sleep(time.Minute)
		require.Len(t, owed(), 1)
		before := p.Count(abi.OpDriverDestroyNetwork)
		require.Less(t, before, 20, "less and less often")
		p.On(abi.OpDriverDestroyNetwork, well)
		time.Sleep(time.Hour)
		require.Equal(t, []string{"a"}, removed())
		require.Empty(t, owed())
	})
}

// A late removal would take the network from the tasks that have it again.
func TestANetworkThatIsMadeAgainIsNotRemoved(t *testing.T) {
	agentsOnOneStore(t, func(t *testing.T, next func() *world, owed func() []state.NetworkRelease) {
		w := next()
		p, removed := networking()
		well := p.Ops[abi.OpDriverDestroyNetwork]
		p.On(abi.OpDriverDestroyNetwork, func(context.Context, host.Call) error { return errors.New("the engine is down") })
		p.On(abi.OpDriverCreateNetwork, func(context.Context, host.Call) error { return nil })
		w.mustLoad(p, nil)
		require.Error(t, w.manager.DestroyNetwork(t.Context(), "fake", "a"))
		d := w.dispense()
		defer d.Release()
		_, err := d.CreateNetwork(t.Context(), "a", "")
		require.NoError(t, err)
		p.On(abi.OpDriverDestroyNetwork, well)
		time.Sleep(time.Hour)
		require.Empty(t, removed())
		require.Empty(t, owed())
	})
}
