package structs

import (
	"maps"
	"slices"
	"strings"
)

// DeviceGroupID names a group of equal devices on a node. It has no part with a '/'.
type DeviceGroupID struct{ Vendor, Type, Name string }

// String is the ID as job files write it.
func (id DeviceGroupID) String() string { return id.Vendor + "/" + id.Type + "/" + id.Name }

// Matches reports whether a job file's request is for the group: "TYPE",
// "VENDOR/TYPE" or "VENDOR/TYPE/NAME".
func (id DeviceGroupID) Matches(request string) bool {
	parts := strings.SplitN(request, "/", 3)
	switch len(parts) {
	case 1:
		return id.Type == parts[0]
	case 2:
		return id.Vendor == parts[0] && id.Type == parts[1]
	}
	return id == DeviceGroupID{parts[0], parts[1], parts[2]}
}

// DeviceHealth is whether a device can be used.
type DeviceHealth string

// The healths of a device. New tasks get only healthy ones.
const (
	DeviceHealthy   DeviceHealth = "healthy"
	DeviceUnhealthy DeviceHealth = "unhealthy"
	// DeviceUnconfirmed: it was there, and its plugin cannot confirm that it still is.
	DeviceUnconfirmed DeviceHealth = "unconfirmed"
)

// DeviceGroup are devices that a task may use in place of one another.
type DeviceGroup struct {
	ID         DeviceGroupID
	Devices    []Device // sorted by ID
	Attributes map[string]Attribute
}

// Device is one device that one task can have.
type Device struct {
	ID                string // unique on the node
	Health            DeviceHealth
	HealthDescription string
	PCIBusID          string // "": not on PCI
}

// Copy returns a deep copy; nil stays nil.
func (g *DeviceGroup) Copy() *DeviceGroup {
	if g == nil {
		return nil
	}
	return &DeviceGroup{ID: g.ID, Devices: slices.Clone(g.Devices), Attributes: maps.Clone(g.Attributes)}
}

// Equal reports whether two groups are the same in every detail.
func (g *DeviceGroup) Equal(o *DeviceGroup) bool {
	return g.ID == o.ID && slices.Equal(g.Devices, o.Devices) && maps.EqualFunc(g.Attributes, o.Attributes, Attribute.Equal)
}

// CopyDeviceGroups returns a deep copy; nil stays nil.
func CopyDeviceGroups(groups []*DeviceGroup) []*DeviceGroup {
	c := slices.Clone(groups)
	for i := range c {
		c[i] = c[i].Copy()
	}
	return c
}

// Group returns the ID of the group that the devices are of.
func (d AllocatedDevice) Group() DeviceGroupID { return DeviceGroupID{d.Vendor, d.Type, d.Name} }

// DeviceUser is the task that devices are for.
type DeviceUser struct {
	AllocID   string
	Task      string
	JobID     string
	TaskGroup string
	Namespace string
}

// DeviceReservation is how a task gets at its devices.
type DeviceReservation struct {
	Env    map[string]string
	Mounts []Mount
	Nodes  []DeviceNode
}

// Mount makes a file or directory of the host's visible in a task.
type Mount struct {
	TaskPath string
	HostPath string
	ReadOnly bool
}

// DeviceNode makes a device node of the host's visible in a task.
type DeviceNode struct {
	TaskPath    string
	HostPath    string
	Permissions string // a subset of "rwm"
}
