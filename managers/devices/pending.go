package devices

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/catalog/owed"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// Store keeps what the device manager has still to do when the agent ends. A
// [state.DB] is one.
type Store interface {
	// Devices returns what was put last; nil: nothing was.
	Devices() (*state.DeviceState, error)
	PutDevices(d *state.DeviceState) error
}

// pendingReleases are releases that failed. They are tried until they succeed, by the next
// agent if need be; without a store they are forgotten with this one.
func pendingReleases(store Store, logger hclog.Logger) *owed.List[state.DeviceRelease] {
	cfg := owed.Config[state.DeviceRelease]{
		What: "releases of devices", Same: sameRelease, Logger: logger,
		Of: func(r state.DeviceRelease) string { return fmt.Sprint(r.Devices.Group()) },
	}
	if store == nil {
		return owed.New(cfg)
	}
	cfg.Put = func(all []state.DeviceRelease) error { return store.PutDevices(&state.DeviceState{Owed: all}) }
	left, err := store.Devices()
	switch {
	case err != nil:
		logger.Error("the devices that an earlier agent could not release are not known", "error", err)
	case left != nil:
		cfg.Left = left.Owed
	}
	return owed.New(cfg)
}

// sameRelease reports whether two are of the same user's devices of a group: a user has
// one reservation of a group.
func sameRelease(a, b state.DeviceRelease) bool {
	return a.Devices.Group() == b.Devices.Group() && a.User == b.User
}

// forget drops what is owed of a user's devices that are about to be reserved for it
// again: the late release would end the new reservation. It waits for a try that goes
// on. The error is an abi.Error: UNAVAILABLE and recoverable.
func (m *Manager) forget(ctx context.Context, d structs.AllocatedDevice, user structs.DeviceUser) error {
	if m.pending.Forget(ctx, state.DeviceRelease{Devices: d, User: user}) != nil {
		return abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("an earlier reservation of device %s is still being released", d.Group()))
	}
	return nil
}

// settle tries what is owed of the plugin's devices, and returns when to try again.
func (u *plugin) settle(ctx context.Context) time.Time {
	if !u.Acquire() {
		return time.Now().Add(catalog.MaxPollInterval)
	}
	defer u.Release()
	u.mu.Lock()
	groups := u.index // which is not changed
	u.mu.Unlock()
	return u.m.pending.Settle(&u.releases,
		func(r state.DeviceRelease) bool { return groups[r.Devices.Group()] != nil },
		func(r state.DeviceRelease) error { return u.sendRelease(ctx, r.Devices, r.User) })
}
