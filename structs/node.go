package structs

import (
	"maps"
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
	Drivers    map[string]*DriverInfo
	Devices    []*DeviceGroup // sorted by ID

	Status      NodeStatus
	Eligibility string
	Drain       *Drain     `json:",omitempty"` // nil: it is not being drained
	LastDrain   *LastDrain `json:",omitempty"` // nil: it never was
	Events      []NodeEvent

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
