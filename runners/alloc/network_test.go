package alloc_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

const bridged = `
job "j" {
  type = "service"
  group "g" {
    network {
      mode = "bridge"
    }
    task "web" {
      driver = "mock"
    }
  }
}
`

// networks counts what it is asked.
type networks struct {
	err       error
	ups, down int
	running   func() []string
	beside    []string // what ran when the network was taken away
}

func (n *networks) Up(_ context.Context, a *structs.Allocation) (*structs.AllocNetwork, error) {
	n.ups++
	if n.err != nil {
		return nil, n.err
	}
	return &structs.AllocNetwork{Mode: a.NetworkMode(), Namespace: "/run/netns/" + a.ID, Interface: "eth0", Address: "10.1.2.3"}, nil
}

func (n *networks) Down(context.Context, *structs.Allocation) error {
	n.down++
	n.beside = append(n.beside, n.running()...)
	return nil
}

func TestAnAllocationHasItsNetworkFromBeforeItsTasksUntilAfterThem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, bridged)
		n := &networks{running: f.world.Running}
		f.networks = n
		f.start()
		synctest.Wait()
		want := &structs.AllocNetwork{Mode: "bridge", Namespace: "/run/netns/alloc-1", Interface: "eth0", Address: "10.1.2.3"}
		require.Equal(t, want, f.lastReport().Network)
		require.Equal(t, []string{"web"}, f.world.Running())

		f.r.Shutdown()
		<-f.r.ShutdownCh()
		require.Zero(t, n.down, "the tasks run on")
		f.build()
		require.NoError(t, f.r.Restore())
		require.Equal(t, want, f.r.AllocState().Network, "known before it is asked for again")
		go f.r.Run()
		synctest.Wait()
		require.Equal(t, 2, n.ups)

		f.stop()
		synctest.Wait()
		require.Equal(t, 1, n.down)
		f.finish()
		require.Equal(t, 2, n.down, "what failed before is tried again")
		require.Empty(t, n.beside)
	})
}

func TestAnAllocationWithoutItsNetworkFails(t *testing.T) {
	for name, tt := range map[string]struct {
		networks *networks
		want     string
	}{
		"none on the node": {nil, `this node has no networks of mode "bridge"`},
		"it failed":        {&networks{err: errors.New("out of addresses")}, "out of addresses"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, bridged)
				if tt.networks != nil {
					tt.networks.running = f.world.Running
					f.networks = tt.networks
				}
				f.start()
				synctest.Wait()
				require.Equal(t, structs.ClientFailed, f.lastReport().ClientStatus)
				require.Contains(t, strings.Join(f.events("web"), "\n"), `failed to setup alloc: pre-run hook "network" failed: `+tt.want)
				require.Zero(t, f.world.Started("web"))
				f.finish()
			})
		})
	}
}

func TestTheNodesOwnNetworkTakesNothing(t *testing.T) {
	for _, mode := range []string{"host", ""} {
		bubble(t, func(t *testing.T) {
			f := newFixture(t, strings.Replace(bridged, "bridge", mode, 1))
			n := &networks{running: f.world.Running}
			f.networks = n
			f.start()
			synctest.Wait()
			require.Equal(t, []string{"web"}, f.world.Running())
			f.finish()
			require.Zero(t, n.ups+n.down)
		})
	}
}
