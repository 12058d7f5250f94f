package registration

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/wasmnode/wasmnode/structs"
)

// nodeAddress is the node's attribute with the address that others reach it by.
const nodeAddress = "unique.network.ip-address"

// address is where a service is reached that has a port's label, or its number, and an address
// of its own or a mode. It is as in Nomad, also where that is no address, or no port.
func (w *Workload) address(own, mode, port string) (ip string, number int, err error) {
	mode = cmp.Or(mode, "auto")
	switch {
	case own != "" && mode != "auto":
		return "", 0, fmt.Errorf("cannot use custom advertise address with %q address mode", mode)
	case own != "":
		number, err = w.port(port, func(p structs.AllocatedPort) int { return p.Value })
		return own, number, err
	case mode == "auto" && w.Driver != nil && w.Driver.Advertise && w.Driver.IP != "":
		mode = "driver"
	case mode == "auto":
		mode = "host"
	}
	switch mode {
	case "host":
		return w.onHost(port)
	case "driver":
		return w.ofDriver(port)
	case "alloc":
		return w.ofAllocation(port)
	}
	return "", 0, fmt.Errorf("invalid address mode %q", mode)
}

// onHost is the node's address. A port that is only a number is of no address, and neither is
// a service without a port where the job asks for no network.
func (w *Workload) onHost(port string) (string, int, error) {
	if port == "" && w.asksForNetwork() {
		return w.Node.Attributes[nodeAddress], 0, nil
	}
	mapped := w.mapped(port)
	number, err := w.port(port, func(p structs.AllocatedPort) int { return p.Value })
	return mapped.HostIP, number, err
}

// asksForNetwork reports whether the workload has a network block.
func (w *Workload) asksForNetwork() bool {
	if w.Task != nil {
		return w.Task.Resources != nil && len(w.Task.Resources.Networks) > 0
	}
	group := w.Alloc.Group()
	return group != nil && len(group.Networks) > 0
}

func (w *Workload) ofDriver(port string) (string, int, error) {
	if w.Driver == nil {
		return "", 0, errors.New(`cannot use address_mode="driver": no driver network exists`)
	}
	if number, given := w.Driver.Ports[port]; given && w.mapped(port).Label == "" {
		return w.Driver.IP, number, nil
	}
	number, err := w.port(port, inside)
	return w.Driver.IP, number, err
}

func (w *Workload) ofAllocation(port string) (string, int, error) {
	if w.Network == nil {
		return "", 0, errors.New(`cannot use address_mode="alloc": no allocation network status reported`)
	}
	number, err := w.port(port, inside)
	return cmp.Or(w.Network.Address, w.Network.AddressIPv6), number, err
}

// inside is the port that a task listens on itself.
func inside(p structs.AllocatedPort) int { return cmp.Or(p.To, p.Value) }

// mapped is the port of a label that the allocation was given; the zero value: none.
func (w *Workload) mapped(label string) structs.AllocatedPort {
	for _, p := range w.Alloc.Resources.Ports {
		if label != "" && p.Label == label {
			return p
		}
	}
	return structs.AllocatedPort{}
}

// port is the number of a port by its label or written as one; 0: there is none to name.
func (w *Workload) port(label string, of func(structs.AllocatedPort) int) (int, error) {
	if label == "" {
		return 0, nil
	}
	if p := w.mapped(label); p.Label != "" {
		return of(p), nil
	}
	number, err := strconv.ParseUint(label, 10, 16)
	switch {
	case err != nil:
		return 0, fmt.Errorf("invalid port %q: port label not found", label)
	case number == 0:
		return 0, fmt.Errorf("invalid port: %q: port must be >0", label)
	}
	return int(number), nil
}
