package conform

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// devices checks what a device plugin does.
func (r *run) devices() {
	var f wasmnodev1.DeviceFingerprintResponse
	err := r.ask(Call{Op: abi.OpDeviceFingerprint, Fresh: true}, &f)
	if err == nil {
		err = checkGroups(f.Groups)
	}
	r.done("fingerprint", said("device_fingerprint", err))
	if err != nil {
		return
	}
	for _, op := range []string{abi.OpDeviceFingerprint, abi.OpDeviceStats} {
		if r.has(op) {
			r.sweep(strings.TrimPrefix(op, r.kind), func(fail Fault) (int, error) {
				out := r.call(Call{Op: op, Fail: fail})
				return out.Asked, faultOf(out.Err)
			})
		}
	}
	r.done("reserve/unknown", r.reserveUnknown())
	for _, g := range f.Groups {
		for _, d := range g.Devices {
			if d.Healthy {
				r.reservation(g.Id, d.Id)
				return
			}
		}
	}
	r.skip("reserve", "there is no healthy device here")
}

// checkGroups checks the names of what was found.
func checkGroups(groups []*wasmnodev1.DeviceGroup) error {
	names := map[string]bool{}
	for _, g := range groups {
		id := g.Id
		if id == nil || id.Vendor == "" || id.Type == "" || id.Name == "" {
			return errors.New("a part of a group's name is missing")
		}
		name := strings.Join([]string{id.Vendor, id.Type, id.Name}, "/")
		if names[name] {
			return fmt.Errorf("the group %s is listed twice", name)
		}
		names[name] = true
		ids := map[string]bool{}
		for _, d := range g.Devices {
			if d.Id == "" || ids[d.Id] {
				return fmt.Errorf("the group %s has a device without an ID, or with that of another: %q", name, d.Id)
			}
			ids[d.Id] = true
		}
	}
	return nil
}

// User is whom devices are reserved for, for trying a plugin with.
func User() *wasmnodev1.DeviceUser {
	return &wasmnodev1.DeviceUser{
		AllocId: "00000000-0000-0000-0000-000000000001", TaskName: "task", JobId: "job", TaskGroupName: "group", Namespace: "default",
	}
}

// reserveUnknown reserves a device that there is not.
func (r *run) reserveUnknown() error {
	request := &wasmnodev1.DeviceReserveRequest{
		Group: &wasmnodev1.DeviceGroupId{Vendor: "none", Type: "none", Name: "none"}, DeviceIds: []string{"none"}, User: User(),
	}
	var answer wasmnodev1.DeviceReserveResponse
	err := r.ask(Call{Op: abi.OpDeviceReserve, Request: encode(request), Fresh: true}, &answer)
	if err == nil {
		return errors.New("it reserves a device of a group that there is not")
	}
	return faultOf(err)
}

// reservation reserves a device and gives it back, each twice.
func (r *run) reservation(group *wasmnodev1.DeviceGroupId, id string) {
	request := encode(&wasmnodev1.DeviceReserveRequest{Group: group, DeviceIds: []string{id}, User: User()})
	var first, again wasmnodev1.DeviceReserveResponse
	err := r.ask(Call{Op: abi.OpDeviceReserve, Request: request, Fresh: true}, &first)
	if err == nil {
		err = checkEdits(first.ContainerEdits)
	}
	r.done("reserve", said("device_reserve", err))
	if err == nil {
		if err = r.ask(Call{Op: abi.OpDeviceReserve, Request: request, Fresh: true}, &again); err == nil && !again.EqualVT(&first) {
			err = errors.New("the same request has another answer")
		}
		r.done("reserve/again", err)
		r.sweep("reserve", func(fail Fault) (int, error) {
			out := r.call(Call{Op: abi.OpDeviceReserve, Request: request, Fail: fail})
			return out.Asked, faultOf(out.Err)
		})
	}
	if !r.has(abi.OpDeviceRelease) {
		return
	}
	for _, name := range []string{"release", "release/again"} {
		var answer wasmnodev1.DeviceReleaseResponse
		err := r.ask(Call{Op: abi.OpDeviceRelease, Request: encode(&wasmnodev1.DeviceReleaseRequest{Group: group, DeviceIds: []string{id}, User: User()}), Fresh: true}, &answer)
		if errors.Is(err, abi.ErrTaskNotFound) {
			err = nil // it counts as released
		}
		r.done(name, said("device_release", optional(err)))
	}
}

// checkEdits checks what a plugin wants a task to get.
func checkEdits(e *wasmnodev1.ContainerEdits) error {
	if len(e.GetHooks()) > 0 {
		return errors.New("hooks are refused by every node")
	}
	for _, variable := range e.GetEnv() {
		name, _, ok := strings.Cut(variable, "=")
		if !ok || name == "" || name == "PATH" || strings.HasPrefix(name, "NOMAD_") || strings.HasPrefix(name, "LD_") {
			return fmt.Errorf("the variable %q is none that a plugin may set", variable)
		}
	}
	for _, m := range e.GetMounts() {
		if !strings.HasPrefix(m.HostPath, "/") || !strings.HasPrefix(m.ContainerPath, "/") {
			return fmt.Errorf("the mount of %q at %q: a path is not absolute", m.HostPath, m.ContainerPath)
		}
	}
	for _, n := range e.GetDeviceNodes() {
		if !strings.HasPrefix(n.Path, "/") {
			return fmt.Errorf("the path of the device node %q is not absolute", n.Path)
		}
	}
	return nil
}
