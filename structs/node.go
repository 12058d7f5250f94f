package structs

import (
	"maps"
	"slices"
	"time"
)

// NodeStatus is a node's state as the control plane sees it.
type NodeStatus string

// The node statuses, with Nomad's names.
const (
	NodeInitializing NodeStatus = "initializing"
	NodeReady        NodeStatus = "ready"
	NodeDown         NodeStatus = "down"
)

// The scheduling eligibilities of a node, with Nomad's names.
const (
	NodeEligible   = "eligible"
	NodeIneligible = "ineligible"
)

// The range that dynamic ports are taken from, as in Nomad.
const (
	MinDynamicPort = 20000
	MaxDynamicPort = 32000
)

// Node is this machine as the control plane knows it.
type Node struct {
	ID          string
	Name        string
	Datacenter  string
	Region      string
	Pool        string
	Class       string
	HTTPAddress string // HOST:PORT; empty: it is asked in another way
	TLS         bool   // it is asked by HTTPS
	Version     string // of wasmnode

	Attributes map[string]string
	Meta       map[string]string
	Resources  NodeResources
	Reserved   NodeResources
	// ReservedCores and ReservedPorts are given to no allocation.
	ReservedCores Ranges        `json:",omitempty"`
	ReservedPorts Ranges        `json:",omitempty"`
	HostNetworks  []HostNetwork `json:",omitempty"` // sorted by name
	HostVolumes   []HostVolume  `json:",omitempty"` // sorted by name
	// Interface has the address at which others reach the machine.
	Interface NetworkInterface `json:",omitzero"`
	// Sockets are those that the processors are in, by the processors' numbers; nil: unknown.
	Sockets []int `json:",omitempty"`
	// NetworkModes are those besides "host" that a group's network may have here, and what the
	// node lacks for each; empty: nothing. Read-only.
	NetworkModes map[string]string `json:",omitempty"`
	Drivers      map[string]*DriverInfo
	Devices      []*DeviceGroup // sorted by ID
	// LoadingPlugins are the files whose plugins are not there yet, sorted.
	LoadingPlugins []string `json:",omitempty"`

	Status NodeStatus
	// StatusUpdated is when the control plane saw the status change last.
	StatusUpdated time.Time `json:",omitzero"`
	Eligibility   string
	Drain         *Drain     `json:",omitempty"` // nil: it is not being drained
	LastDrain     *LastDrain `json:",omitempty"` // nil: it never was
	Events        []NodeEvent

	CreateIndex uint64
	ModifyIndex uint64
}

// NodeMeta is a node's metadata, and where it is from.
type NodeMeta struct {
	Meta    map[string]string  // the dynamic over the static
	Static  map[string]string  // of its configuration
	Dynamic map[string]*string // set while it runs; nil unsets
}

// MaxNodeEvents is how many events of a node are kept (as in Nomad).
const MaxNodeEvents = 10

// Copy returns a deep copy.
func (n *Node) Copy() *Node {
	c := *n
	c.Attributes = maps.Clone(n.Attributes)
	c.Meta = maps.Clone(n.Meta)
	c.Drivers = maps.Clone(n.Drivers)
	for name, d := range c.Drivers {
		c.Drivers[name] = d.Copy()
	}
	c.Devices = CopyDeviceGroups(n.Devices)
	c.HostNetworks = slices.Clone(n.HostNetworks)
	c.HostVolumes = slices.Clone(n.HostVolumes)
	c.Sockets = slices.Clone(n.Sockets)
	c.LoadingPlugins = slices.Clone(n.LoadingPlugins)
	c.Events = append([]NodeEvent(nil), n.Events...)
	return &c
}

// NodeResources is what a node has, or keeps back.
type NodeResources struct {
	CPUMHz   int
	Cores    int
	MemoryMB int
	DiskMB   int
}

// NetworkInterface is one of the machine's; empty: unknown.
type NetworkInterface struct {
	Name string
	MAC  string // such as 02:00:00:00:00:01
}

// HostNetwork is one of the machine's networks that jobs may name for their ports.
type HostNetwork struct {
	Name          string
	CIDR          string // that the address is in; empty: any
	Interface     string // that has the address; empty: any
	Address       string // as it was found; empty: the machine has none such
	ReservedPorts Ranges `json:",omitempty"`
}

// HostNetwork returns the network of a name: the machine's address where it is empty or
// "default" and no network has that name; nil: there is none, or it has no address.
func (n *Node) HostNetwork(name string) *HostNetwork {
	if name == "" {
		name = defaultNetwork
	}
	for i := range n.HostNetworks {
		if h := &n.HostNetworks[i]; h.Name == name && h.Address != "" {
			return h
		}
	}
	if name == defaultNetwork {
		return &HostNetwork{Name: name, Address: n.Attributes["unique.network.ip-address"]}
	}
	return nil
}

// HostVolume is one of the machine's directories that jobs may mount.
type HostVolume struct {
	Name     string
	ID       string `json:",omitempty"` // of a dynamic one; empty: it is of the configuration
	Path     string // absolute and clean
	ReadOnly bool
}

// VolumePluginPrefix is how the attributes of a node's volume plugins begin, with Nomad's name.
const VolumePluginPrefix = "plugins.host_volume."

// HostVolume returns the volume of a name; nil: there is none.
func (n *Node) HostVolume(name string) *HostVolume {
	if i := slices.IndexFunc(n.HostVolumes, func(v HostVolume) bool { return v.Name == name }); i >= 0 {
		return &n.HostVolumes[i]
	}
	return nil
}

const defaultNetwork = "default"

// NodeEvent is something that happened to a node.
type NodeEvent struct {
	Time      time.Time
	Subsystem string // "Driver", "Node"
	Message   string
	Details   map[string]string
}

// DriverInfo is a driver's state on a node.
type DriverInfo struct {
	Detected          bool
	Healthy           bool
	HealthDescription string
	Attributes        map[string]string
	UpdateTime        time.Time
}

// Copy returns a deep copy.
func (d *DriverInfo) Copy() *DriverInfo {
	if d == nil {
		return nil
	}
	c := *d
	c.Attributes = maps.Clone(d.Attributes)
	return &c
}

// Same reports whether two states differ in nothing but when they were taken.
func (d *DriverInfo) Same(o *DriverInfo) bool {
	return d.Detected == o.Detected && d.Healthy == o.Healthy &&
		d.HealthDescription == o.HealthDescription && maps.Equal(d.Attributes, o.Attributes)
}
