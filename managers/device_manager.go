package managers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
)

// DeviceGrace is how long the devices of a plugin that has stopped answering are kept
// as unconfirmed, unless it is configured: long enough for a plugin's restarts, short
// enough that nobody waits long for a device that is gone.
const DeviceGrace = 2 * time.Minute

// DeviceManagerConfig configures a [DeviceManager]. Catalog and Logger are required.
type DeviceManagerConfig struct {
	// Catalog is where the plugins come from; it is not started yet.
	Catalog *Catalog
	Logger  hclog.Logger
	// PluginConfig returns the operator's configuration for the plugin of that
	// name, nil for none. Nil: there is none for any.
	PluginConfig func(name string) map[string]any
	// Updater is told of all devices of the node, sorted, when they have changed. Calls
	// come one at a time, in order.
	Updater func(groups []*structs.DeviceGroup)
	// Store keeps releases that failed for the next agent; nil: they are forgotten.
	Store DeviceStore
	// Grace is how long devices are unconfirmed before they are gone; 0: DeviceGrace.
	Grace time.Duration
}

// DeviceManager keeps the device plugins in service, knows their devices, and has
// them reserved and released. Its methods may be called concurrently.
type DeviceManager struct {
	cfg       DeviceManagerConfig
	announcer announcer[*deviceList]
	fleet     fleet
	owed      owedReleases
	holders   deviceHolders
}

// deviceList is all devices of the node, as an [announcer] tells them.
type deviceList struct{ groups []*structs.DeviceGroup }

// Same implements announced.
func (l *deviceList) Same(o *deviceList) bool {
	return slices.EqualFunc(l.groups, o.groups, (*structs.DeviceGroup).Equal)
}

// Copy implements announced.
func (l *deviceList) Copy() *deviceList { return &deviceList{structs.CopyDeviceGroups(l.groups)} }

// NewDeviceManager returns a manager that takes the catalog's device plugins into
// service from the catalog's start on.
func NewDeviceManager(cfg DeviceManagerConfig) *DeviceManager {
	if cfg.Grace == 0 {
		cfg.Grace = DeviceGrace
	}
	if cfg.Updater == nil {
		cfg.Updater = func([]*structs.DeviceGroup) {}
	}
	m := &DeviceManager{cfg: cfg}
	m.owed.init(cfg.Store, cfg.Logger)
	// One plugin's change is a change of the whole list, which has no name.
	m.fleet = fleet{logger: cfg.Logger, config: cfg.PluginConfig, changed: func(string) { m.announcer.say("") }}
	m.fleet.init()
	m.announcer.init(func(string) *deviceList { return &deviceList{m.list(time.Now())} },
		func(_ string, l *deviceList) { cfg.Updater(l.groups) })
	m.fleet.wg.Go(m.announcer.run)
	cfg.Catalog.serve(TypeDevice, m)
	return m
}

// WaitForFirstFingerprint returns when every file that was in the directory at the
// start has been loaded or refused, every device plugin among them has answered its
// first fingerprint or failed to, and the updater has been told; or ctx's error.
func (m *DeviceManager) WaitForFirstFingerprint(ctx context.Context) error {
	if err := m.fleet.awaitFirst(ctx, m.cfg.Catalog); err != nil {
		return err
	}
	return m.announcer.flush(ctx)
}

// Refresh has a plugin's fingerprint polled soon. It does not block.
func (m *DeviceManager) Refresh(plugin string) { m.fleet.refresh(plugin) }

// Shutdown takes all plugins out of service and returns when no call of the manager's
// own runs. It may be called more than once.
func (m *DeviceManager) Shutdown() {
	m.fleet.shutdown()
	m.announcer.stop()
	m.fleet.wg.Wait()
}

// take implements taker.
func (m *DeviceManager) take(ctx context.Context, c candidate, old member) (member, error) {
	u, err := newDeviceUnit(m, c)
	if err != nil {
		return nil, err
	}
	if err := m.fleet.take(ctx, u.unit, old != nil); err != nil {
		return nil, err
	}
	return u, nil
}

// list returns all devices, sorted, as values that are not changed. A group that two
// plugins name is the first one's.
func (m *DeviceManager) list(now time.Time) []*structs.DeviceGroup {
	var all []*structs.DeviceGroup
	taken := map[structs.DeviceGroupID]bool{}
	for _, u := range m.fleet.all() {
		for _, g := range deviceOf(u).current(now) {
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
func provider(units []*unit, group structs.DeviceGroupID) *unit {
	for _, u := range units {
		if deviceOf(u).provides(group) {
			return u
		}
	}
	return nil
}

// acquire returns the plugin of a group, with a reference; nil: there is none.
func (m *DeviceManager) acquire(group structs.DeviceGroupID) *deviceUnit {
	u := provider(m.fleet.all(), group)
	if u == nil || !u.acquire() {
		return nil
	}
	return deviceOf(u)
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
func (m *DeviceManager) AllStats() []*structs.DeviceGroupStats {
	all := groupStats{}
	for _, u := range m.fleet.all() {
		for _, g := range deviceOf(u).allStats() {
			if all[g.ID] == nil {
				all[g.ID] = g
			}
		}
	}
	return all.sorted()
}

// DeviceStats returns the newest figures of some devices, which are the caller's. A
// device that has none is left out. Its cost is that of the devices asked for. A group
// that nobody provides is an [UnknownDeviceError].
func (m *DeviceManager) DeviceStats(d structs.AllocatedDevice) (*structs.DeviceGroupStats, error) {
	u := provider(m.fleet.all(), d.Group())
	if u == nil {
		return nil, &UnknownDeviceError{"collect statistics", d}
	}
	return deviceOf(u).statsOf(d), nil
}
