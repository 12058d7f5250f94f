package managers

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/structs"
)

// deviceWorld is a device manager with fake plugins that are taken without a
// directory.
type deviceWorld struct {
	t       *testing.T
	manager *DeviceManager
	updates *deviceUpdates
}

func newDeviceWorld(t *testing.T) *deviceWorld {
	t.Helper()
	return newDeviceWorldOn(t, nil)
}

// newDeviceWorldOn makes a world whose manager remembers what is owed in a store.
func newDeviceWorldOn(t *testing.T, store DeviceStore) *deviceWorld {
	t.Helper()
	catalog, err := NewCatalog(CatalogConfig{Dir: t.TempDir(), Loader: &fakeLoader{}, Logger: hclog.NewNullLogger()})
	require.NoError(t, err)
	catalog.firstLook(nil)
	w := &deviceWorld{t: t, updates: &deviceUpdates{}}
	w.manager = NewDeviceManager(DeviceManagerConfig{Catalog: catalog, Logger: hclog.NewNullLogger(), Updater: w.updates.update, Store: store})
	t.Cleanup(func() {
		w.manager.Shutdown()
		catalog.Shutdown()
	})
	return w
}

func (w *deviceWorld) take(p *fakePlugin, old member) (*deviceUnit, error) {
	m, err := w.manager.take(context.Background(), candidate{plugin: p, file: p.recipe.Name + ".wasm", digest: "d" + p.recipe.Version}, old)
	if err != nil {
		return nil, err
	}
	return m.(*deviceUnit), nil
}

func (w *deviceWorld) mustTake(p *fakePlugin, old member) *deviceUnit {
	w.t.Helper()
	u, err := w.take(p, old)
	require.NoError(w.t, err)
	return u
}

// deviceUpdates records what an updater is told: a line for each update.
type deviceUpdates struct {
	mu  sync.Mutex
	all []string
}

func (u *deviceUpdates) update(groups []*structs.DeviceGroup) {
	var line []string
	for _, g := range groups {
		for _, d := range g.Devices {
			line = append(line, fmt.Sprintf("%s[%s] %s", g.ID, d.ID, d.Health))
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = append(u.all, strings.Join(line, ", "))
}

func (u *deviceUpdates) get() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string(nil), u.all...)
}

func (u *deviceUpdates) last() string {
	all := u.get()
	if len(all) == 0 {
		return "nothing was told"
	}
	return all[len(all)-1]
}

// gpu is the group that fake plugins have, unless it is said otherwise.
var gpu = structs.DeviceGroupID{Vendor: "acme", Type: "gpu", Name: "x1"}

func protoGroupID(id structs.DeviceGroupID) *wasmnodev1.DeviceGroupId {
	return &wasmnodev1.DeviceGroupId{Vendor: id.Vendor, Type: id.Type, Name: id.Name}
}

// answersDevices answers a fingerprint with healthy devices of one group.
func answersDevices(group structs.DeviceGroupID, ids ...string) func(context.Context, Call) error {
	return func(_ context.Context, c Call) error {
		g := &wasmnodev1.DeviceGroup{Id: protoGroupID(group)}
		for _, id := range ids {
			g.Devices = append(g.Devices, &wasmnodev1.Device{Id: id, Healthy: true})
		}
		if len(ids) > 0 {
			c.Answer.(*wasmnodev1.DeviceFingerprintResponse).Groups = []*wasmnodev1.DeviceGroup{g}
		}
		return nil
	}
}

// answersStats answers with one figure for each device of a group.
func answersStats(group structs.DeviceGroupID, value int64, ids ...string) func(context.Context, Call) error {
	return func(_ context.Context, c Call) error {
		g := &wasmnodev1.DeviceGroupStats{Id: protoGroupID(group), Devices: map[string]*wasmnodev1.DeviceStats{}}
		for _, id := range ids {
			g.Devices[id] = &wasmnodev1.DeviceStats{
				Summary: &wasmnodev1.StatValue{Value: &wasmnodev1.StatValue_IntValue{IntValue: value}, Unit: "W"},
				Stats: []*wasmnodev1.DeviceStat{{
					Path:  []string{"power", "now"},
					Value: &wasmnodev1.StatValue{Value: &wasmnodev1.StatValue_IntValue{IntValue: value}},
				}},
			}
		}
		c.Answer.(*wasmnodev1.DeviceStatsResponse).Groups = []*wasmnodev1.DeviceGroupStats{g}
		return nil
	}
}

// newFakeDevice is a device plugin with the devices a and b.
func newFakeDevice(name string) *fakePlugin {
	p := newFakePlugin()
	p.recipe.Name, p.recipe.Type = name, TypeDevice
	p.grants = host.Grants{FS: host.FSGrant{ReadOnly: []string{os.TempDir()}}, Devices: host.DeviceGrant{Nodes: []string{"/dev/acme*"}}}
	p.ops = map[string]func(context.Context, Call) error{
		abi.OpDeviceFingerprint: answersDevices(gpu, "a", "b"),
		abi.OpDeviceStats:       answersStats(gpu, 7, "a", "b"),
		abi.OpDeviceReserve: func(_ context.Context, c Call) error {
			r := c.Request.(*wasmnodev1.DeviceReserveRequest)
			c.Answer.(*wasmnodev1.DeviceReserveResponse).ContainerEdits = &wasmnodev1.ContainerEdits{
				Env:         []string{"ACME=" + strings.Join(r.DeviceIds, ",")},
				DeviceNodes: []*wasmnodev1.EditedDeviceNode{{Path: "/dev/acme0"}},
				Mounts:      []*wasmnodev1.EditedMount{{HostPath: os.TempDir(), ContainerPath: "/acme"}},
			}
			return nil
		},
		abi.OpDeviceRelease: func(context.Context, Call) error { return nil },
	}
	return p
}

func devices(ids ...string) structs.AllocatedDevice {
	return structs.AllocatedDevice{Vendor: gpu.Vendor, Type: gpu.Type, Name: gpu.Name, DeviceIDs: ids}
}

var consumer = structs.DeviceUser{AllocID: "alloc", Task: "web", JobID: "job", TaskGroup: "group", Namespace: "default"}

func (w *deviceWorld) reserve(ids ...string) (*structs.DeviceReservation, error) {
	return w.manager.Reserve(context.Background(), devices(ids...), consumer)
}
