package alloc_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
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

func (n *networks) Up(ctx context.Context, a *structs.Allocation, create func(context.Context) (*os.File, error)) (*structs.AllocNetwork, error) {
	n.ups++
	if n.err != nil {
		return nil, n.err
	}
	if _, err := create(ctx); err != nil {
		return nil, err
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

// made are the networks that a driver has made and not let go of.
type made struct {
	t   *testing.T
	err error
	all []string
}

func (m *made) Create(allocID, hostname string) (*os.File, error) {
	m.all = append(m.all, allocID+" "+hostname)
	return nil, m.err
}

func (m *made) Destroy(allocID string) error {
	require.Equal(m.t, "alloc-1", allocID)
	m.all = nil
	return nil
}

func TestADriverMakesTheNetworkThatItsTasksNeed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, strings.Replace(bridged, `"bridge"`, "\"bridge\"\nhostname = \"h\"", 1))
		f.networks = &networks{running: f.world.Running}
		m := &made{t: t}
		f.world.Create(m)
		f.world.Missing(abi.NewRecoverableError(abi.Unavailable, "not yet"))
		f.start()
		synctest.Wait()
		require.Empty(t, m.all, "the driver is not there")
		f.world.Missing(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"alloc-1 h"}, m.all)
		require.Equal(t, []string{"web"}, f.world.Running())
		f.stop()
		synctest.Wait()
		require.Empty(t, m.all)
		f.finish()
	})
}

// Who asks the driver keeps that until the driver is there.
func TestADriverThatIsGoneIsAskedToLetGoOfTheNetwork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, bridged)
		f.networks = &networks{running: f.world.Running}
		m := &made{t: t}
		f.world.Create(m)
		f.start()
		synctest.Wait()
		require.Len(t, m.all, 1)
		f.world.Missing(abi.NewError(abi.NotFound, "unloaded"))
		f.stop()
		synctest.Wait()
		require.Empty(t, m.all)
		f.finish()
	})
}

func TestAnAllocationFailsWhoseDriverMakesNoNetwork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, bridged)
		f.networks = &networks{running: f.world.Running}
		f.world.Create(&made{t: t, err: errors.New("no pause image")})
		f.start()
		synctest.Wait()
		require.Equal(t, structs.ClientFailed, f.lastReport().ClientStatus)
		require.Contains(t, strings.Join(f.events("web"), "\n"), "no pause image")
		f.finish()
	})
}
