package devices

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/internal/catalogtest"
	"github.com/wasmnode/wasmnode/structs"
)

// deviceWorld is a device manager with fake plugins that are taken without a
// directory.
type deviceWorld struct {
	t       *testing.T
	manager *Manager
	updates *deviceUpdates
}

func newDeviceWorld(t *testing.T) *deviceWorld {
	t.Helper()
	return newDeviceWorldOn(t, func(*Config) {})
}

// newDeviceWorldOn makes a world with another configuration.
func newDeviceWorldOn(t *testing.T, change func(*Config)) *deviceWorld {
	t.Helper()
	w := &deviceWorld{t: t, updates: &deviceUpdates{}}
	cfg := Config{Catalog: emptyCatalog(t), Logger: hclog.NewNullLogger(), Updater: w.updates.update}
	change(&cfg)
	w.manager = New(cfg)
	t.Cleanup(w.manager.Shutdown)
	cfg.Catalog.Start()
	require.NoError(t, w.manager.WaitForFirstFingerprint(t.Context()))
	return w
}

// emptyCatalog is one whose directory has no files.
func emptyCatalog(t testing.TB) *catalog.Catalog {
	t.Helper()
	c, err := catalog.New(catalog.Config{Dir: t.TempDir(), Loader: &catalogtest.Loader{}, Logger: hclog.NewNullLogger(), LookEvery: 1000 * time.Hour})
	require.NoError(t, err)
	t.Cleanup(c.Shutdown)
	return c
}

func (w *deviceWorld) take(p *catalogtest.Plugin, old *plugin) (*plugin, error) {
	return take(w.manager, catalog.Candidate{Plugin: p, Grants: p.Grants, File: p.Recipe.Name + ".wasm"}, old)
}

// take puts a plugin in charge, in the place of old.
func take(m *Manager, c catalog.Candidate, old *plugin) (*plugin, error) {
	u, err := m.registry.Take(context.Background(), c, old != nil)
	if err != nil {
		return nil, err
	}
	return pluginOf(u), nil
}

func (w *deviceWorld) mustLoad(p *catalogtest.Plugin, old *plugin) *plugin {
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
func answersDevices(group structs.DeviceGroupID, ids ...string) func(context.Context, host.Call) error {
	return func(_ context.Context, c host.Call) error {
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
func answersStats(group structs.DeviceGroupID, value int64, ids ...string) func(context.Context, host.Call) error {
	return func(_ context.Context, c host.Call) error {
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
func newFakeDevice(name string) *catalogtest.Plugin {
	p := catalogtest.NewPlugin()
	p.Recipe.Name, p.Recipe.Type = name, host.KindDevice
	p.Grants = host.Grants{FS: host.FSGrant{ReadOnly: []string{os.TempDir()}}, Devices: host.DeviceGrant{Nodes: []string{"/dev/acme*"}}}
	p.Ops = map[string]func(context.Context, host.Call) error{
		abi.OpDeviceFingerprint: answersDevices(gpu, "a", "b"),
		abi.OpDeviceStats:       answersStats(gpu, 7, "a", "b"),
		abi.OpDeviceReserve: func(_ context.Context, c host.Call) error {
			r := c.Request.(*wasmnodev1.DeviceReserveRequest)
			c.Answer.(*wasmnodev1.DeviceReserveResponse).ContainerEdits = &wasmnodev1.ContainerEdits{
				Env:         []string{"ACME=" + strings.Join(r.DeviceIds, ",")},
				DeviceNodes: []*wasmnodev1.EditedDeviceNode{{Path: "/dev/acme0"}},
				Mounts:      []*wasmnodev1.EditedMount{{HostPath: os.TempDir(), ContainerPath: "/acme"}},
			}
			return nil
		},
		abi.OpDeviceRelease: func(context.Context, host.Call) error { return nil },
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
