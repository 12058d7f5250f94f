package httpapi

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// wireNode has the class of nodes that are alike, and what it has of cores and networks as
// Nomad's servers tell it.
type wireNode struct {
	*nomad.Node
	ComputedClass     string
	NodeResources     wireNodeResources
	ReservedResources wireReservedResources
}

func answeredNode(n *structs.Node) wireNode {
	out := node(n)
	return wireNode{out, computedClass(n), wireResourcesOf(n, out.NodeResources), reservedOf(n, out.ReservedResources)}
}

// wireNodeStub lists volumes of the machine that jobs may name.
type wireNodeStub struct {
	*nomad.NodeListStub
	HostVolumes map[string]*nomad.HostVolumeInfo
}

// computedClass is the same for nodes that jobs cannot tell apart but by what is theirs alone.
func computedClass(n *structs.Node) string {
	shared := func(m map[string]string) map[string]string {
		m = maps.Clone(m)
		maps.DeleteFunc(m, func(name, _ string) bool { return strings.HasPrefix(name, "unique.") })
		return m
	}
	h := fnv.New64a()
	_ = json.NewEncoder(h).Encode([]any{n.Datacenter, n.Pool, n.Class, shared(n.Attributes), shared(n.Meta), n.Devices}) // all of it is plain
	return fmt.Sprintf("v1:%d", h.Sum64())
}

type wireNodeResources struct {
	*nomad.NodeResources
	Cpu          wireNodeCPU
	NodeNetworks []wireNodeNetwork
	Processors   wireProcessors
}

type wireNodeCPU struct {
	nomad.NodeCpuResources
	ReservableCpuCores []int
}

func wireResourcesOf(n *structs.Node, r *nomad.NodeResources) wireNodeResources {
	free := []int{}
	for i := range n.Resources.Cores {
		if !n.ReservedCores.Has(i) {
			free = append(free, i)
		}
	}
	return wireNodeResources{
		NodeResources: r,
		Cpu:           wireNodeCPU{r.Cpu, free},
		NodeNetworks:  nodeNetworks(n),
		Processors:    wireProcessors{topology(n)},
	}
}

type wireReservedResources struct {
	*nomad.NodeReservedResources
	Cpu wireReservedCPU
}

type wireReservedCPU struct {
	nomad.NodeReservedCpuResources
	ReservedCpuCores []int
}

func reservedOf(n *structs.Node, r *nomad.NodeReservedResources) wireReservedResources {
	return wireReservedResources{r, wireReservedCPU{r.Cpu, n.ReservedCores.Below(n.Resources.Cores)}}
}

// wireNodeNetwork is an interface, or a mode that networks of groups may have.
type wireNodeNetwork struct {
	Mode, Device, MacAddress string
	Speed                    int // MBit/s; 0: unknown
	Addresses                []wireNodeAddress
}

type wireNodeAddress struct{ Alias, Address, Family, Gateway, ReservedPorts string }

// nodeNetworks are the modes, and then the interfaces with the addresses that ports may have.
func nodeNetworks(n *structs.Node) (list []wireNodeNetwork) {
	for _, m := range networkModes(n.NetworkModes) {
		list = append(list, wireNodeNetwork{Mode: m.Mode})
	}
	add := func(device string, a wireNodeAddress) {
		at := slices.IndexFunc(list, func(w wireNodeNetwork) bool { return w.Mode == "host" && w.Device == device })
		if at < 0 {
			at, list = len(list), append(list, wireNodeNetwork{Mode: "host", Device: device})
			if device == n.Interface.Name {
				list[at].MacAddress = n.Interface.MAC
			}
		}
		list[at].Addresses = append(list[at].Addresses, a)
	}
	if ip := n.Attributes["unique.network.ip-address"]; ip != "" {
		add(n.Interface.Name, wireNodeAddress{Alias: "default", Address: ip, Family: family(ip), ReservedPorts: n.ReservedPorts.String()})
	}
	for _, h := range n.HostNetworks {
		if h.Address != "" {
			add(h.Interface, wireNodeAddress{Alias: h.Name, Address: h.Address, Family: family(h.Address), ReservedPorts: h.ReservedPorts.String()})
		}
	}
	return list
}

func family(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is4() {
		return "ipv4"
	}
	return "ipv6"
}

// hostVolumes are the volumes by name, none an empty map.
func hostVolumes(volumes []structs.HostVolume) map[string]*nomad.HostVolumeInfo {
	out := map[string]*nomad.HostVolumeInfo{}
	for _, v := range volumes {
		out[v.Name] = &nomad.HostVolumeInfo{Path: v.Path, ReadOnly: v.ReadOnly, ID: v.ID}
	}
	return out
}

type wireProcessors struct{ Topology wireTopology }

// wireTopology is where the cores are. Nobody overrides what they compute, and how far memory
// is from them is not known.
type wireTopology struct {
	Cores                                        []wireCore
	Nodes                                        []int
	Distances                                    [][]int
	OverrideTotalCompute, OverrideWitholdCompute int
}

// wireCore is a core; speeds are in MHz.
type wireCore struct {
	ID, SocketID, NodeID            int
	Disable                         bool // it is given to no task
	Grade                           bool // it is one for performance: no others are told apart
	BaseSpeed, MaxSpeed, GuessSpeed int
}

func topology(n *structs.Node) wireTopology {
	t := wireTopology{Nodes: []int{}}
	memoryNode := map[int]int{}
	for i := range n.Resources.Cores { // there are no more nodes than cores
		cores, told := n.Attributes[fmt.Sprintf("numa.node%d.cores", i)]
		if !told {
			continue
		}
		t.Nodes = append(t.Nodes, i)
		near, err := structs.ParseRanges(cores, 0, n.Resources.Cores-1)
		if err != nil {
			continue
		}
		for _, core := range near.Below(n.Resources.Cores) {
			memoryNode[core] = i
		}
	}
	if len(t.Nodes) == 0 {
		t.Nodes = []int{0}
	}
	speed, _ := strconv.Atoi(n.Attributes["cpu.frequency"]) // 0: not known
	for i := range n.Resources.Cores {
		core := wireCore{ID: i, NodeID: memoryNode[i], Disable: n.ReservedCores.Has(i), Grade: true, BaseSpeed: speed}
		if i < len(n.Sockets) {
			core.SocketID = n.Sockets[i]
		}
		t.Cores = append(t.Cores, core)
	}
	return t
}
