package devices

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/catalog/owed"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// defaultGrace is how long the devices of a plugin that has stopped answering are kept
// as unconfirmed, unless it is configured: long enough for a plugin's restarts, short
// enough that a wait for a device that is gone is short.
const defaultGrace = 2 * time.Minute

// Config configures a [Manager]. Catalog and Logger are required.
type Config struct {
	// Catalog is where the plugins come from; it is not started yet.
	Catalog *catalog.Catalog
	Logger  hclog.Logger
	// Updater gets all devices of the node, sorted, when they have changed. Calls
	// come one at a time, in order.
	Updater func(groups []*structs.DeviceGroup)
	// Store keeps releases that failed for the next agent; nil: they are forgotten.
	Store Store
	// Grace is how long devices are unconfirmed before they are gone; 0: defaultGrace.
	Grace time.Duration
}

// Manager keeps the device plugins in service, knows their devices, and has
// them reserved and released. Its methods may be called concurrently.
type Manager struct {
	cfg       Config
	announcer *catalog.Announcer[*list]
	registry  *catalog.Registry
	pending   *owed.List[state.DeviceRelease]
	holders   holders
}

// list is all devices of the node, as a [catalog.Announcer] reports them.
type list struct{ groups []*structs.DeviceGroup }

// Same implements [catalog.Announceable].
func (l *list) Same(o *list) bool {
	return slices.EqualFunc(l.groups, o.groups, (*structs.DeviceGroup).Equal)
}

// Copy implements [catalog.Announceable].
func (l *list) Copy() *list { return &list{structs.CopyDeviceGroups(l.groups)} }

// New returns a manager that takes the catalog's device plugins into
// service from the catalog's start on.
func New(cfg Config) *Manager {
	if cfg.Grace == 0 {
		cfg.Grace = defaultGrace
	}
	if cfg.Updater == nil {
		cfg.Updater = func([]*structs.DeviceGroup) {}
	}
	m := &Manager{cfg: cfg, pending: pendingReleases(cfg.Store, cfg.Logger)}
	// One plugin's change is a change of the whole list, which has no name.
	m.announcer = catalog.NewAnnouncer(func(string) *list { return &list{m.list(time.Now())} },
		func(_ string, l *list) { cfg.Updater(l.groups) })
	m.registry = catalog.NewRegistry(catalog.RegistryConfig{
		Catalog: cfg.Catalog, Type: host.KindDevice, Logger: cfg.Logger,
		New: m.newPlugin, Changed: func(string) { m.announcer.Changed("") },
	})
	return m
}

// WaitForFirstFingerprint returns when every file that was in the directory at the
// start has been loaded or refused, every device plugin among them has answered its
// first fingerprint or failed to, and the updater has got it; or ctx's error.
func (m *Manager) WaitForFirstFingerprint(ctx context.Context) error {
	if err := m.registry.AwaitFirst(ctx, nil); err != nil {
		return err
	}
	return m.announcer.Flush(ctx)
}

// WaitForGroup is WaitForFirstFingerprint for one group of devices: it waits for no other
// plugins once the one that provides it is there.
func (m *Manager) WaitForGroup(ctx context.Context, group structs.DeviceGroupID) error {
	return m.registry.AwaitFirst(ctx, func() bool { return provider(m.registry.All(), group) != nil })
}

// Refresh has a plugin's fingerprint polled soon. It does not block.
func (m *Manager) Refresh(plugin string) { m.registry.Refresh(plugin) }

// Shutdown takes all plugins out of service and returns when no call of the manager's
// own runs. It may be called more than once.
func (m *Manager) Shutdown() {
	m.announcer.Stop()
	m.registry.Shutdown()
}

// list returns all devices, sorted, as values that are not changed. A group that two
// plugins name is the first one's.
func (m *Manager) list(now time.Time) []*structs.DeviceGroup {
	var all []*structs.DeviceGroup
	taken := map[structs.DeviceGroupID]bool{}
	for _, u := range m.registry.All() {
		for _, g := range pluginOf(u).current(now) {
			if !taken[g.ID] {
				taken[g.ID] = true
				all = append(all, g)
			}
		}
	}
	slices.SortFunc(all, compareGroups)
	return all
}

// provider returns the plugin among some whose group it is, nil for none.
func provider(units []*catalog.Unit, group structs.DeviceGroupID) *catalog.Unit {
	for _, u := range units {
		if pluginOf(u).provides(group) {
			return u
		}
	}
	return nil
}

// acquire returns the plugin of a group, with a reference; nil: there is none.
func (m *Manager) acquire(group structs.DeviceGroupID) *plugin {
	u := provider(m.registry.All(), group)
	if u == nil || !u.Acquire() {
		return nil
	}
	return pluginOf(u)
}

// UnknownDeviceError says that devices are not on this node.
type UnknownDeviceError struct {
	What    string // the operation that failed
	Devices structs.AllocatedDevice
}

// Error returns one line.
func (e *UnknownDeviceError) Error() string {
	return fmt.Sprintf("failed to %s: operation on unknown device(s) \"%s\" (%v)", e.What, e.Devices.Group(), e.Devices.DeviceIDs)
}

// Unwrap gives the error a code.
func (e *UnknownDeviceError) Unwrap() error { return abi.NewError(abi.NotFound, e.Error()) }

// AllStats returns the newest figures of all devices, sorted by group. They are the
// caller's.
func (m *Manager) AllStats() []*structs.DeviceGroupStats {
	all := groupStats{}
	for _, u := range m.registry.All() {
		for _, g := range pluginOf(u).allStats() {
			if all[g.ID] == nil {
				all[g.ID] = g
			}
		}
	}
	return all.sorted()
}

// DeviceStats returns the newest figures of some devices, which are the caller's. A
// device that has none is left out. Its cost is that of the devices asked for. A group
// that no plugin provides is an [UnknownDeviceError].
func (m *Manager) DeviceStats(d structs.AllocatedDevice) (*structs.DeviceGroupStats, error) {
	u := provider(m.registry.All(), d.Group())
	if u == nil {
		return nil, &UnknownDeviceError{"collect statistics", d}
	}
	return pluginOf(u).statsOf(d), nil
}
