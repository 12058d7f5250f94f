package node

import (
	"net"
	"net/netip"
	"slices"

	"github.com/wasmnode/wasmnode/structs"
)

// fingerprintNetworks finds out which networks allocations can have for themselves.
func fingerprintNetworks(n *structs.Node, networks Networks) {
	if networks == nil {
		return
	}
	n.NetworkModes = networks.Modes()
	for name, version := range networks.Versions() {
		n.Attributes["plugins.cni.version."+name] = version
	}
}

// withAddresses returns host networks with the addresses that the machine has on them now.
func withAddresses(networks []structs.HostNetwork) []structs.HostNetwork {
	if len(networks) == 0 {
		return nil
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		interfaces = nil // then there are none
	}
	found := slices.Clone(networks)
	for i := range found {
		found[i].Address = addressOn(interfaces, found[i])
	}
	return found
}

// addressOn is the first address of a network, IPv4 before IPv6; empty: there is none.
func addressOn(interfaces []net.Interface, h structs.HostNetwork) (first string) {
	within, err := netip.ParsePrefix(h.CIDR)
	for _, i := range interfaces {
		addrs, addrsErr := i.Addrs()
		if h.Interface != "" && i.Name != h.Interface || addrsErr != nil {
			continue
		}
		for _, a := range addrs {
			prefix, parseErr := netip.ParsePrefix(a.String())
			ip := prefix.Addr().Unmap()
			if parseErr != nil || ip.IsLinkLocalUnicast() || h.CIDR != "" && (err != nil || !within.Contains(ip)) {
				continue
			}
			if ip.Is4() {
				return ip.String()
			}
			if first == "" {
				first = ip.String()
			}
		}
	}
	return first
}
