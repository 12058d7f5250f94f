package devices

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/catalog/owed"
	"github.com/wasmnode/wasmnode/managers/internal/catalogtest"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// agentsOnOneStore runs a test whose agents come one after another on the same file.
func agentsOnOneStore(t *testing.T, test func(t *testing.T, next func() *deviceWorld, store state.DB)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "client.db")
	synctest.Test(t, func(t *testing.T) {
		store, err := state.Open(path, state.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		var last *deviceWorld
		test(t, func() *deviceWorld {
			if last != nil {
				last.manager.Shutdown()
			}
			last = newDeviceWorldOn(t, func(c *Config) { c.Store = store })
			return last
		}, store)
	})
}

// releasedBy records the users for whom a plugin is told of a release.
func releasedBy(p *catalogtest.Plugin) func() []string {
	var users []string
	p.On(abi.OpDeviceRelease, func(_ context.Context, c host.Call) error {
		r := c.Request.(*wasmnodev1.DeviceReleaseRequest)
		users = append(users, fmt.Sprintf("%v of %s/%s", r.DeviceIds, r.User.AllocId, r.User.TaskName))
		return nil
	})
	return func() []string {
		synctest.Wait()
		return users
	}
}

func TestAReleaseThatFailedIsTriedByTheNextAgent(t *testing.T) {
	agentsOnOneStore(t, func(t *testing.T, next func() *deviceWorld, store state.DB) {
		w, broken := next(), newFakeDevice("acme")
		broken.On(abi.OpDeviceRelease, catalogtest.Fault(abi.OpDeviceRelease))
		w.mustLoad(broken, nil)
		require.Error(t, w.manager.Release(t.Context(), devices("a"), consumer))
		require.Error(t, w.manager.Release(t.Context(), devices("a"), consumer), "said twice, it is owed once")

		w, p := next(), newFakeDevice("acme")
		released := releasedBy(p)
		w.mustLoad(p, nil)
		require.Equal(t, []string{"[a] of alloc/web"}, released(), "as soon as the plugin is there")
		left, err := store.Devices()
		require.NoError(t, err)
		require.Empty(t, left.Owed)

		w, p = next(), newFakeDevice("acme")
		released = releasedBy(p)
		w.mustLoad(p, nil)
		require.Empty(t, released(), "what was released is forgotten")
	})
}

func TestAReleaseWaitsForAPluginThatHasNotAnsweredYet(t *testing.T) {
	agentsOnOneStore(t, func(t *testing.T, next func() *deviceWorld, _ state.DB) {
		w, p := next(), newFakeDevice("acme")
		well := p.Ops[abi.OpDeviceFingerprint]
		released := releasedBy(p)
		p.On(abi.OpDeviceFingerprint, func(context.Context, host.Call) error { return abi.NewError(abi.Unavailable, "no bus yet") })
		w.mustLoad(p, nil)
		err := w.manager.Release(t.Context(), devices("a"), consumer)
		require.EqualError(t, err, "device acme/gpu/x1: its plugin has not answered yet; it is released when it does")
		require.True(t, abi.IsRecoverable(err))
		require.Empty(t, released())
		p.On(abi.OpDeviceFingerprint, well)
		time.Sleep(time.Minute)
		require.Equal(t, []string{"[a] of alloc/web"}, released())
		require.NoError(t, w.manager.Release(t.Context(), structs.AllocatedDevice{Vendor: "no", Type: "bo", Name: "dy"}, consumer), "nobody has these any more")
	})
}

// A late release would take the devices from the task that has them again.
func TestReservingAgainForgetsThePendingRelease(t *testing.T) {
	agentsOnOneStore(t, func(t *testing.T, next func() *deviceWorld, store state.DB) {
		w, p := next(), newFakeDevice("acme")
		w.mustLoad(p, nil)
		p.On(abi.OpDeviceRelease, func(ctx context.Context, _ host.Call) error {
			<-ctx.Done()
			return abi.NewRecoverableError(abi.DeadlineExceeded, "too slow")
		})
		require.Error(t, w.manager.Release(t.Context(), devices("a"), consumer))
		other := consumer
		other.AllocID = "other"
		require.Error(t, w.manager.Release(t.Context(), devices("b"), other))
		time.Sleep(2 * time.Second) // into the second try of the first
		synctest.Wait()
		begun := time.Now()
		_, err := w.reserve("a")
		require.NoError(t, err)
		require.Greater(t, time.Since(begun), time.Second, "it waits for the try that goes on")

		released := releasedBy(p)
		time.Sleep(time.Hour)
		require.Equal(t, []string{"[b] of other/web"}, released())
		left, err := store.Devices()
		require.NoError(t, err)
		require.Empty(t, left.Owed)
	})
}

func TestOfTooManyPendingReleasesTheOldestAreDropped(t *testing.T) {
	agentsOnOneStore(t, func(t *testing.T, next func() *deviceWorld, store state.DB) {
		w, p := next(), newFakeDevice("acme")
		p.On(abi.OpDeviceRelease, func(context.Context, host.Call) error { return abi.NewError(abi.Internal, "no") })
		w.mustLoad(p, nil)
		for i := range owed.Max + 2 {
			user := consumer
			user.AllocID = fmt.Sprint(i)
			require.Error(t, w.manager.Release(t.Context(), devices("a"), user))
		}
		left, err := store.Devices()
		require.NoError(t, err)
		require.Len(t, left.Owed, owed.Max)
		require.Equal(t, "2", left.Owed[0].User.AllocID)
	})
}
