package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/wasmnode/wasmnode/structs"
)

// wireNode is a node as servers know it: with what schedulers of Nomad 1.6 read of it, and
// with what newer ones do.
type wireNode struct {
	ID, SecretID, Name, Datacenter, NodeClass, NodePool string
	HTTPAddr                                            string
	TLSEnabled                                          bool
	Status, SchedulingEligibility                       string
	Attributes, Meta, Links                             map[string]string
	Drivers                                             map[string]*wireDriver
	HostVolumes                                         map[string]*wireHostVolume
	NodeResources                                       *wireNodeResources
	ReservedResources                                   *wireReserved
	Resources, Reserved                                 *oldResources
}

type wireDriver struct {
	Attributes        map[string]string
	Detected, Healthy bool
	HealthDescription string
	UpdateTime        time.Time
}

type wireHostVolume struct {
	Name, Path string
	ReadOnly   bool
	ID         string
}

type wireNodeResources struct {
	Cpu                            wireNodeCPU
	Processors                     wireProcessors
	Memory                         wireMemory
	Disk                           wireDisk
	Networks                       []*wireNetwork
	NodeNetworks                   []*wireNodeNetwork
	Devices                        []*wireDevices
	MinDynamicPort, MaxDynamicPort int
}

type wireNodeCPU struct {
	CpuShares          int64
	TotalCpuCores      uint16
	ReservableCpuCores []uint16
}

type wireProcessors struct{ Topology *wireTopology }

type wireTopology struct {
	Nodes                                        []byte
	Distances                                    [][]byte
	Cores                                        []wireCore
	OverrideTotalCompute, OverrideWitholdCompute uint64
}

type wireCore struct {
	SocketID, NodeID                uint8
	ID                              uint16
	Grade, Disable                  bool
	BaseSpeed, MaxSpeed, GuessSpeed uint64
}

type wireMemory struct{ MemoryMB int64 }

type wireDisk struct{ DiskMB int64 }

type wireNetwork struct {
	Mode, Device, CIDR, IP string
	MBits                  int
}

type wireNodeNetwork struct {
	Mode, Device, MacAddress string
	Speed                    int
	Addresses                []wireAddress
}

type wireAddress struct{ Family, Alias, Address, ReservedPorts, Gateway string }

type wireDevices struct {
	Vendor, Type, Name string
	Instances          []wireDevice
	Attributes         map[string]structs.Attribute
}

type wireDevice struct {
	ID                string
	Healthy           bool
	HealthDescription string
	Locality          *wireLocality
}

type wireLocality struct{ PciBusID string }

type wireReserved struct {
	Cpu      wireReservedCPU
	Memory   wireMemory
	Disk     wireDisk
	Networks struct{ ReservedHostPorts string }
}

type wireReservedCPU struct {
	CpuShares        int64
	ReservedCpuCores []uint16
}

type oldResources struct{ CPU, MemoryMB, DiskMB int }

// linkSpeed is what a node's network is said to have, in Mbit/s: nobody shares it out.
const linkSpeed = 1000

// nodeOf describes a node to servers.
func nodeOf(n *structs.Node, secretID string) *wireNode {
	w := &wireNode{
		ID: n.ID, SecretID: secretID, Name: n.Name, Datacenter: n.Datacenter, NodeClass: n.Class, NodePool: cmp.Or(n.Pool, "default"),
		HTTPAddr: ReachableAddress(n), TLSEnabled: n.TLS,
		Status: string(structs.NodeInitializing), SchedulingEligibility: structs.NodeEligible,
		Attributes: maps.Clone(n.Attributes), Meta: n.Meta, Links: map[string]string{},
		Drivers: map[string]*wireDriver{}, HostVolumes: map[string]*wireHostVolume{},
		NodeResources: resourcesOf(n),
		Resources:     &oldResources{n.Resources.CPUMHz, n.Resources.MemoryMB, n.Resources.DiskMB},
		Reserved:      &oldResources{n.Reserved.CPUMHz, n.Reserved.MemoryMB, n.Reserved.DiskMB},
		ReservedResources: &wireReserved{
			Cpu:    wireReservedCPU{int64(n.Reserved.CPUMHz), cores(n.ReservedCores.Below(n.Resources.Cores))},
			Memory: wireMemory{int64(n.Reserved.MemoryMB)}, Disk: wireDisk{int64(n.Reserved.DiskMB)},
		},
	}
	w.ReservedResources.Networks.ReservedHostPorts = n.ReservedPorts.String()
	if w.Attributes != nil {
		w.Attributes["nomad.service_discovery"] = "true"
	}
	for name, d := range n.Drivers {
		w.Drivers[name] = &wireDriver{d.Attributes, d.Detected, d.Healthy, d.HealthDescription, d.UpdateTime}
	}
	for _, v := range n.HostVolumes {
		w.HostVolumes[v.Name] = &wireHostVolume{v.Name, v.Path, v.ReadOnly, v.ID}
	}
	return w
}

// ReachableAddress is where other machines ask the node itself, which nodes do for a disk that they are to
// take over; empty: its API is for its own machine only.
func ReachableAddress(n *structs.Node) string {
	host, port, err := net.SplitHostPort(n.HTTPAddress)
	ip, bad := netip.ParseAddr(host)
	switch {
	case err != nil || !isAddress(n.HTTPAddress) || bad == nil && ip.IsLoopback():
		return ""
	case bad == nil && ip.IsUnspecified():
		host = n.Attributes["unique.network.ip-address"]
	}
	if host == "" {
		return ""
	}
	return net.JoinHostPort(host, port)
}

// check refuses a node that servers' schedulers would fail on, whatever job they look at.
func (w *wireNode) check() error {
	switch r := w.NodeResources; {
	case w.ID == "" || w.SecretID == "" || w.Name == "" || w.Datacenter == "" || len(w.Attributes) == 0:
		return fmt.Errorf("a node needs an ID, a secret, a name, a datacenter and attributes to be registered")
	case w.NodePool == "all":
		return fmt.Errorf("client.node_pool: %q is all pools: a node is in one of them", w.NodePool)
	case r.Cpu.CpuShares <= 0 || len(r.Processors.Topology.Cores) == 0:
		return fmt.Errorf("a node without processors cannot be registered")
	}
	return nil
}

func resourcesOf(n *structs.Node) *wireNodeResources {
	r := &wireNodeResources{
		Memory: wireMemory{int64(n.Resources.MemoryMB)}, Disk: wireDisk{int64(n.Resources.DiskMB)},
		MinDynamicPort: structs.MinDynamicPort, MaxDynamicPort: structs.MaxDynamicPort,
		Processors: wireProcessors{topologyOf(n)},
	}
	r.Cpu = wireNodeCPU{CpuShares: int64(n.Resources.CPUMHz), TotalCpuCores: uint16(n.Resources.Cores)}
	for _, c := range r.Processors.Topology.Cores {
		if !c.Disable {
			r.Cpu.ReservableCpuCores = append(r.Cpu.ReservableCpuCores, c.ID)
		}
	}
	r.Networks, r.NodeNetworks = networksOf(n)
	for _, g := range n.Devices {
		d := &wireDevices{Vendor: g.ID.Vendor, Type: g.ID.Type, Name: g.ID.Name, Attributes: g.Attributes}
		for _, one := range g.Devices {
			instance := wireDevice{ID: one.ID, Healthy: one.Health == structs.DeviceHealthy, HealthDescription: one.HealthDescription}
			if one.PCIBusID != "" {
				instance.Locality = &wireLocality{one.PCIBusID}
			}
			d.Instances = append(d.Instances, instance)
		}
		r.Devices = append(r.Devices, d)
	}
	return r
}

// topologyOf is the machine's processors, in one memory node: tasks are given processors
// without regard to memory.
func topologyOf(n *structs.Node) *wireTopology {
	t := &wireTopology{Nodes: []byte{0}, Distances: [][]byte{{10}}}
	reserved := n.ReservedCores.Below(n.Resources.Cores)
	for id := range n.Resources.Cores {
		c := wireCore{ID: uint16(id), Grade: true, Disable: slices.Contains(reserved, id), BaseSpeed: uint64(n.Resources.CPUMHz / n.Resources.Cores)}
		if id < len(n.Sockets) {
			c.SocketID = uint8(n.Sockets[id])
		}
		t.Cores = append(t.Cores, c)
	}
	return t
}

// networksOf are the machine's address, under the names that jobs may have for it, and the
// networks that allocations may have for themselves.
func networksOf(n *structs.Node) (old []*wireNetwork, list []*wireNodeNetwork) {
	ip := n.Attributes["unique.network.ip-address"]
	old = []*wireNetwork{{Mode: "host", Device: n.Interface.Name, CIDR: single(ip), IP: ip, MBits: linkSpeed}}
	host := &wireNodeNetwork{Mode: "host", Device: n.Interface.Name, MacAddress: n.Interface.MAC, Speed: linkSpeed}
	named := false
	for _, h := range n.HostNetworks {
		if h.Address != "" {
			host.Addresses = append(host.Addresses, wireAddress{Family: family(h.Address), Alias: h.Name, Address: h.Address, ReservedPorts: h.ReservedPorts.String()})
			named = named || h.Name == "default"
		}
	}
	if !named {
		host.Addresses = append(host.Addresses, wireAddress{Family: family(ip), Alias: "default", Address: ip, ReservedPorts: n.ReservedPorts.String()})
	}
	list = []*wireNodeNetwork{host}
	for _, mode := range slices.Sorted(maps.Keys(n.NetworkModes)) {
		if n.NetworkModes[mode] == "" {
			old = append(old, &wireNetwork{Mode: mode})
			list = append(list, &wireNodeNetwork{Mode: mode})
		}
	}
	return old, list
}

func single(ip string) string {
	if family(ip) == "ipv6" {
		return ip + "/128"
	}
	return ip + "/32"
}

func family(ip string) string {
	if a, err := netip.ParseAddr(ip); err == nil && a.Is6() && !a.Is4In6() {
		return "ipv6"
	}
	return "ipv4"
}

func cores(list []int) (out []uint16) {
	for _, c := range list {
		out = append(out, uint16(c))
	}
	return out
}
