package clientapi

import (
	"encoding/binary"
	"net/netip"
	"strconv"

	nomad "github.com/hashicorp/nomad/api"
)

// Machine is what is told of the machine that the agent is on, to who is to find out what is
// wrong with it. Nothing in it may be a secret.
type Machine struct {
	OS        string // as uname(1) tells it
	Addresses []InterfaceAddress
	// Resolver and Hosts are the texts of /etc/resolv.conf and /etc/hosts.
	Resolver, Hosts string
	Environment     map[string]string // of the agent
	Disks           []Disk
}

// InterfaceAddress is an address of an interface, in its network.
type InterfaceAddress struct {
	Interface string
	Prefix    netip.Prefix
}

// Disk is a file system by where it is mounted, in bytes.
type Disk struct {
	Path        string
	Total, Used uint64
}

// HostData renders what is told of a machine.
func HostData(m Machine) *nomad.HostData {
	data := &nomad.HostData{
		OS: m.OS, Network: make([]map[string]string, 0, len(m.Addresses)), ResolvConf: m.Resolver, Hosts: m.Hosts,
		Environment: m.Environment, Disk: make(map[string]nomad.DiskUsage, len(m.Disks)),
	}
	for _, a := range m.Addresses {
		data.Network = append(data.Network, addressData(a))
	}
	for _, d := range m.Disks {
		data.Disk[d.Path] = nomad.DiskUsage{DiskMB: int64(d.Total >> 20), UsedMB: int64(d.Used >> 20)}
	}
	return data
}

// addressData has the names that Nomad has of an address, but for those that only write the
// same number in another way.
func addressData(a InterfaceAddress) map[string]string {
	ip := a.Prefix.Addr()
	data := map[string]string{
		"name": a.Interface, "address": ip.String(), "host": ip.String(), "string": a.Prefix.String(), "port": "0",
		"mask_bits": strconv.Itoa(a.Prefix.Bits()), "network": a.Prefix.Masked().Addr().String(), "type": "IPv6",
	}
	if ip.Is4() {
		mask := ^uint32(0) << (32 - a.Prefix.Bits())
		first := ip.As4()
		last := binary.BigEndian.Uint32(first[:]) | ^mask
		data["type"] = "IPv4"
		data["netmask"], data["broadcast"] = dotted(mask), dotted(last)
	}
	return data
}

func dotted(n uint32) string {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n))).String()
}
