package devices

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// Deadlines of the calls that are about a task's devices.
const (
	reserveDeadline = 30 * time.Second
	releaseDeadline = 10 * time.Second
)

// Reserve has devices prepared for a task by the plugin whose they are, within 30
// seconds. The same reservation may be made again. After an error nothing is reserved.
//
// # Errors
//
// An [UnknownDeviceError] (NOT_FOUND); UNAVAILABLE and recoverable while a device is
// not healthy, while its plugin does not work, while plugins are still loading, and
// when another task does not let go of it in time; INTERNAL when the plugin's answer is
// refused; otherwise the plugin's own.
func (m *Manager) Reserve(ctx context.Context, d structs.AllocatedDevice, user structs.DeviceUser) (*structs.DeviceReservation, error) {
	u := m.acquire(d.Group())
	if u == nil {
		if m.cfg.Catalog.Loading() {
			return nil, abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("device %q is not there yet: plugins are still loading", d.Group()))
		}
		return nil, &UnknownDeviceError{"reserve devices", d}
	}
	defer u.Release()
	if err := u.ready(d); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, reserveDeadline)
	defer cancel()
	if err := m.holders.hold(bounded, d, user); err != nil {
		return nil, err
	}
	if err := m.forget(bounded, d, user); err != nil {
		m.holders.free(d, user)
		return nil, err
	}
	reservation, err := u.reserve(bounded, d, user)
	if err != nil {
		// A plugin that broke may have lost its devices too.
		u.Refresh()
		err = u.TaskError(user.AllocID+"/"+user.Task, err)
		// Whatever it did before it failed is undone.
		if releaseErr := m.Release(context.WithoutCancel(ctx), d, user); releaseErr != nil {
			u.Logger().Warn("a reservation that failed could not be undone yet", "devices", d.DeviceIDs, "error", releaseErr)
		}
		return nil, err
	}
	return reservation, nil
}

// reserve calls the plugin and checks what it answers.
func (u *plugin) reserve(ctx context.Context, d structs.AllocatedDevice, user structs.DeviceUser) (*structs.DeviceReservation, error) {
	answer := &wasmnodev1.DeviceReserveResponse{}
	err := u.Plugin().Invoke(ctx, host.Call{Op: abi.OpDeviceReserve, Request: &wasmnodev1.DeviceReserveRequest{
		Group: protoGroup(d), DeviceIds: d.DeviceIDs, User: protoUser(user),
	}, Answer: answer})
	if err != nil {
		return nil, err
	}
	grants := u.Grants()
	reservation, err := checkReservation(answer, u.Name(), grants)
	if err == nil {
		err = followLinks(reservation, grants)
	}
	if err != nil {
		return nil, abi.NewError(abi.Internal, fmt.Sprintf("device plugin %s: its reservation is refused: %s", u.Name(), catalog.OneLine(err)))
	}
	return reservation, nil
}

// Release reports to the plugin that a task no longer uses devices. Devices that no plugin
// provides any more are released. A release that fails is tried again when the plugin
// works again, by the next agent if need be.
func (m *Manager) Release(ctx context.Context, d structs.AllocatedDevice, user structs.DeviceUser) error {
	defer m.holders.free(d, user)
	u := m.acquire(d.Group())
	if u == nil {
		if !m.devicesMayAppear() {
			return nil
		}
		m.pending.Add(state.DeviceRelease{Devices: d, User: user})
		return abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("device %s: its plugin has not answered yet; it is released when it does", d.Group()))
	}
	defer u.Release()
	err := u.sendRelease(ctx, d, user)
	if err != nil {
		u.releases.Postpone()
		m.pending.Add(state.DeviceRelease{Devices: d, User: user})
	}
	return err
}

// devicesMayAppear reports whether devices that no plugin provides may be those of a plugin
// that has not yet reported its devices.
func (m *Manager) devicesMayAppear() bool {
	if m.cfg.Catalog.Loading() {
		return true
	}
	return slices.ContainsFunc(m.registry.All(), func(u *catalog.Unit) bool { return !pluginOf(u).hasAnswered() })
}

// hasAnswered reports whether the plugin has ever reported its devices.
func (u *plugin) hasAnswered() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.index != nil
}

// sendRelease calls the plugin. One that has nothing to free is done.
func (u *plugin) sendRelease(ctx context.Context, d structs.AllocatedDevice, user structs.DeviceUser) error {
	if !u.Plugin().Has(abi.OpDeviceRelease) {
		return nil
	}
	if err := u.Quarantined(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, releaseDeadline)
	defer cancel()
	request := &wasmnodev1.DeviceReleaseRequest{Group: protoGroup(d), DeviceIds: d.DeviceIDs, User: protoUser(user)}
	err := u.Plugin().Invoke(ctx, host.Call{Op: abi.OpDeviceRelease, Request: request, Answer: &wasmnodev1.DeviceReleaseResponse{}})
	if code := abi.CodeOf(err); code == abi.Unimplemented || code == abi.NotFound {
		return nil
	}
	return err
}

// ready returns why devices cannot be given to a task now, as an error.
func (u *plugin) ready(d structs.AllocatedDevice) error {
	if len(d.DeviceIDs) == 0 {
		return &UnknownDeviceError{"reserve devices", d}
	}
	now, _ := u.Health()
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, id := range d.DeviceIDs {
		device, ok := u.index[d.Group()][id]
		health, why := device.Health, device.HealthDescription
		if !now.UnconfirmedSince.IsZero() {
			health, why = structs.DeviceUnconfirmed, now.Reason
		}
		switch {
		case !ok:
			return &UnknownDeviceError{"reserve devices", d}
		case health != structs.DeviceHealthy:
			return abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("device %s %q is %s: %s", d.Group(), id, health, why))
		}
	}
	return nil
}

func protoGroup(d structs.AllocatedDevice) *wasmnodev1.DeviceGroupId {
	return &wasmnodev1.DeviceGroupId{Vendor: d.Vendor, Type: d.Type, Name: d.Name}
}

func protoUser(u structs.DeviceUser) *wasmnodev1.DeviceUser {
	return &wasmnodev1.DeviceUser{AllocId: u.AllocID, TaskName: u.Task, JobId: u.JobID, TaskGroupName: u.TaskGroup, Namespace: u.Namespace}
}
