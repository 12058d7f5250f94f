package config

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"

	"github.com/wasmnode/wasmnode/structs"
)

// HostNetwork is a network of the machine that ports of jobs may name.
type HostNetwork struct {
	CIDR          string `key:"cidr"`           // that the address is in; empty: any
	Interface     string `key:"interface"`      // that has the address; empty: any
	ReservedPorts string `key:"reserved_ports"` // given to no task on it
}

const (
	maxPort = 65535
	maxCore = 65535
)

// Ports is a valid list of ports as a set.
func Ports(list string) structs.Ranges {
	set, _ := structs.ParseRanges(list, 1, maxPort) // validated when it was loaded
	return set
}

// Cores is a valid list of cores as a set.
func Cores(list string) structs.Ranges {
	set, _ := structs.ParseRanges(list, 0, maxCore) // validated when it was loaded
	return set
}

// networkFaults returns what is wrong with reserved ports and cores, and host networks.
func (c Client) networkFaults() (faults []error) {
	ports := func(key, list string) {
		if _, err := structs.ParseRanges(list, 1, maxPort); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", key, err))
		}
	}
	ports("reserved: reserved_ports", c.ReservedPorts)
	if _, err := structs.ParseRanges(c.ReservedCores, 0, maxCore); err != nil {
		faults = append(faults, fmt.Errorf("reserved: cores: %w", err))
	}
	for _, name := range slices.Sorted(maps.Keys(c.HostNetworks)) {
		h := c.HostNetworks[name]
		at := fmt.Sprintf("host_network %q: ", name)
		if !validName.MatchString(name) {
			faults = append(faults, fmt.Errorf("%sa network's name is a letter, then letters, digits, '_' or '-', at most 64 in all", at))
		}
		if h.CIDR == "" && h.Interface == "" {
			faults = append(faults, fmt.Errorf("%sit has neither cidr nor interface", at))
		}
		if _, err := netip.ParsePrefix(h.CIDR); h.CIDR != "" && err != nil {
			faults = append(faults, fmt.Errorf("%scidr: %q is not a network such as 10.0.0.0/8", at, h.CIDR))
		}
		ports(at+"reserved_ports", h.ReservedPorts)
	}
	if !interfaceName.MatchString(c.BridgeName) {
		faults = append(faults, fmt.Errorf("bridge_network_name: %q is not the name of an interface: at most 15 letters, digits, '.', '_' and '-'", c.BridgeName))
	}
	if prefix, err := netip.ParsePrefix(c.BridgeSubnet); err != nil || !prefix.Addr().Is4() || prefix.Bits() > maxBridgeBits {
		faults = append(faults, fmt.Errorf("bridge_network_subnet: %q is not a network of IPv4 with room for addresses, such as 172.26.80.0/20", c.BridgeSubnet))
	}
	return faults
}

var interfaceName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,14}$`)

// maxBridgeBits leaves two addresses besides those of the network, its bridge and its broadcast.
const maxBridgeBits = 29
