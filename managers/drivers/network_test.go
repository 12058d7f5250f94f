package drivers

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
)

func TestADriverIsAskedForNetworksOnlyIfItMakesThem(t *testing.T) {
	w, p, d := driverWorld(t)
	path := "/proc/self/ns/net" // the fake takes any
	p.On(abi.OpDriverCreateNetwork, func(_ context.Context, c host.Call) error {
		r := c.Request.(*wasmnodev1.DriverCreateNetworkRequest)
		require.Equal(t, "a h", r.AllocId+" "+r.Hostname)
		c.Answer.(*wasmnodev1.DriverCreateNetworkResponse).Namespace = path
		return nil
	})
	p.On(abi.OpDriverDestroyNetwork, func(context.Context, host.Call) error { return abi.NewError(abi.Internal, "stuck") })
	f, err := d.CreateNetwork(t.Context(), "a", "h")
	require.NoError(t, err)
	require.Nil(t, f)
	require.NoError(t, w.manager.DestroyNetwork(t.Context(), "fake", "a"))

	p.Capabilities = &wasmnodev1.DriverCapabilities{CreatesNetworks: true}
	f, err = d.CreateNetwork(t.Context(), "a", "h")
	require.NoError(t, err)
	require.Equal(t, path, f.Name())
	require.NoError(t, f.Close())
	require.EqualError(t, w.manager.DestroyNetwork(t.Context(), "fake", "a"), "driver fake: letting go of the group's network: stuck")
	path = ""
	f, err = d.CreateNetwork(t.Context(), "a", "h")
	require.NoError(t, err)
	require.Nil(t, f, "the node makes it")
}
