package httpapi

import (
	"cmp"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// nodeDevices renders a node's devices. Nomad knows only healthy and unhealthy ones:
// one that is not confirmed is unhealthy, with the reason.
func nodeDevices(groups []*structs.DeviceGroup) []*nomad.NodeDeviceResource {
	out := make([]*nomad.NodeDeviceResource, 0, len(groups))
	for _, g := range groups {
		r := &nomad.NodeDeviceResource{
			Vendor: g.ID.Vendor, Type: g.ID.Type, Name: g.ID.Name,
			Instances:  make([]*nomad.NodeDevice, 0, len(g.Devices)),
			Attributes: make(map[string]*nomad.Attribute, len(g.Attributes)),
		}
		for _, d := range g.Devices {
			r.Instances = append(r.Instances, nodeDevice(d))
		}
		for name, a := range g.Attributes {
			r.Attributes[name] = &nomad.Attribute{FloatVal: a.Float, IntVal: a.Int, StringVal: a.String, BoolVal: a.Bool, Unit: a.Unit}
		}
		out = append(out, r)
	}
	return out
}

func nodeDevice(d structs.Device) *nomad.NodeDevice {
	out := &nomad.NodeDevice{ID: d.ID, Healthy: d.Health == structs.DeviceHealthy, HealthDescription: d.HealthDescription}
	if d.Health == structs.DeviceUnconfirmed {
		out.HealthDescription = "unconfirmed: " + cmp.Or(d.HealthDescription, "its plugin does not answer")
	}
	if d.PCIBusID != "" {
		out.Locality = &nomad.NodeDeviceLocality{PciBusID: d.PCIBusID}
	}
	return out
}

// allocatedDevices renders the devices that a task was given.
func allocatedDevices(devices []structs.AllocatedDevice) (out []*nomad.AllocatedDeviceResource) {
	for _, d := range devices {
		out = append(out, &nomad.AllocatedDeviceResource{Vendor: d.Vendor, Type: d.Type, Name: d.Name, DeviceIDs: d.DeviceIDs})
	}
	return out
}
