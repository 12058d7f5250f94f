package task

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
)

// Devices has devices prepared for tasks. Its methods may be called concurrently.
type Devices interface {
	// Reserve returns how the task gets at its devices. The same reservation may be
	// made again; after an error nothing is reserved.
	Reserve(ctx context.Context, d structs.AllocatedDevice, user structs.DeviceUser) (*structs.DeviceReservation, error)
	// Release ends a reservation. One that was not made is released.
	Release(ctx context.Context, d structs.AllocatedDevice, user structs.DeviceUser) error
}

// deviceHooks is the hook of a task that was given devices.
func deviceHooks(cfg Config) []Hook {
	given := cfg.Alloc.Resources.Tasks[cfg.Task].Devices
	if len(given) == 0 {
		return nil
	}
	return []Hook{&devicesHook{devices: cfg.Devices, given: byGroup(given), user: structs.DeviceUser{
		AllocID: cfg.Alloc.ID, Task: cfg.Task, JobID: cfg.Alloc.JobID,
		TaskGroup: cfg.Alloc.TaskGroup, Namespace: cfg.Alloc.Namespace,
	}}}
}

// byGroup joins the devices of one group that several blocks asked for: their plugin
// returns once how the task gets at all of them.
func byGroup(given []structs.AllocatedDevice) (joined []structs.AllocatedDevice) {
	at := map[structs.DeviceGroupID]int{}
	for _, d := range given {
		i, known := at[d.Group()]
		if !known {
			i = len(joined)
			at[d.Group()] = i
			joined = append(joined, structs.AllocatedDevice{Vendor: d.Vendor, Type: d.Type, Name: d.Name})
		}
		joined[i].DeviceIDs = append(joined[i].DeviceIDs, d.DeviceIDs...)
	}
	return joined
}

// devicesHook reserves the devices that a task was given, once for the task, and
// releases them when the task can no longer come back.
type devicesHook struct {
	devices Devices // nil: the node has none
	given   []structs.AllocatedDevice
	user    structs.DeviceUser
}

func (*devicesHook) Name() string { return DevicesHook }

func (h *devicesHook) Prestart(ctx context.Context, _ *PrestartRequest) (*PrestartResult, error) {
	if h.devices == nil {
		return nil, abi.NewError(abi.FailedPrecondition, "the task was given devices, and this node has no device plugins")
	}
	result := &PrestartResult{Done: true, Env: map[string]string{}}
	for i, d := range h.given {
		r, err := h.devices.Reserve(ctx, d, h.user)
		if err != nil {
			// All of its devices or none.
			err = errors.Join(err, h.release(context.WithoutCancel(ctx), h.given[:i]))
			return nil, fmt.Errorf("failed to reserve device %s: %w", d.Group(), err)
		}
		maps.Copy(result.Env, r.Env)
		result.Mounts = append(result.Mounts, r.Mounts...)
		result.Devices = append(result.Devices, r.Nodes...)
	}
	return result, nil
}

func (h *devicesHook) Stop(ctx context.Context) error {
	if h.devices == nil {
		return nil
	}
	return h.release(ctx, h.given)
}

func (h *devicesHook) release(ctx context.Context, devices []structs.AllocatedDevice) error {
	var errs []error
	for _, d := range devices {
		if err := h.devices.Release(ctx, d, h.user); err != nil {
			errs = append(errs, fmt.Errorf("release device %s: %w", d.Group(), err))
		}
	}
	return errors.Join(errs...)
}
