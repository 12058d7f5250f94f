package standalone

import (
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

// maxDeviceRequests bounds the device blocks of a task: each is looked up on every
// node.
const maxDeviceRequests = 64

// devices checks what a task asks for of the node's devices.
func (v *validation) devices(list []*nomad.RequestedDevice) {
	if n := len(list); n > maxDeviceRequests {
		v.fault("resources: device: %d blocks, the limit is %d", n, maxDeviceRequests)
		return
	}
	for _, d := range list {
		v.in("resources: device \""+d.Name+"\"", func() { v.device(d) })
	}
}

func (v *validation) device(d *nomad.RequestedDevice) {
	if parts := strings.Split(d.Name, "/"); len(parts) > 3 || slices.Contains(parts, "") {
		v.fault("a device is asked for as \"TYPE\", \"VENDOR/TYPE\" or \"VENDOR/TYPE/NAME\"")
	}
	if d.Count != nil && *d.Count < 1 {
		v.fault("count: there has to be at least one")
	}
	v.constraints(d.Constraints, false)
	v.affinities(d.Affinities)
}
