// Package state is the node's durable memory: what must survive a `kill -9` of the
// agent. [DB] is the interface; there are a bbolt store, an in-memory one, one that
// keeps nothing, and one that fails on demand, and one conformance suite (in
// state/statetest) that all of them run. It decides nothing: runners decide what is
// written and when.
package state

import (
	"github.com/wasmnode/wasmnode/structs"
)

// DB is a store. Not found is never an error: the zero value is returned. Deleting
// what is not there is not an error. When a method that writes returns nil the value is
// durable; writes of unchanged values are skipped. All methods may be called
// concurrently, and concurrent writers share a transaction.
type DB interface {
	// Name names the implementation, for logs.
	Name() string

	// Allocations returns every stored allocation, and by ID the error for each
	// that could not be read; the error is for the store as a whole.
	Allocations() ([]*structs.Allocation, map[string]error, error)
	PutAllocation(*structs.Allocation) error
	// DeleteAllocation removes an allocation and all that was stored of its tasks.
	DeleteAllocation(allocID string) error

	// AllocationState is the state that the runner computed last.
	AllocationState(allocID string) (*structs.AllocationState, error)
	PutAllocationState(*structs.AllocationState) error

	// Task returns what was stored of one task; both are nil when nothing was.
	Task(allocID, task string) (*TaskLocal, *structs.TaskState, error)
	PutTaskLocal(allocID, task string, local *TaskLocal) error
	PutTaskState(allocID, task string, s *structs.TaskState) error
	// PutTask stores both, or neither.
	PutTask(allocID, task string, local *TaskLocal, s *structs.TaskState) error

	// Node returns the node's identity; nil before the first PutNode.
	Node() (*NodeIdentity, error)
	PutNode(*NodeIdentity) error

	// Seen returns what the node saw last; nil before the first PutSeen.
	Seen() (*Seen, error)
	PutSeen(*Seen) error

	// NodeMeta returns what people set of the node's metadata; nil before the first
	// PutNodeMeta.
	NodeMeta() (*NodeMeta, error)
	PutNodeMeta(*NodeMeta) error

	// Devices returns what the device manager left; nil before the first PutDevices.
	Devices() (*DeviceState, error)
	PutDevices(*DeviceState) error

	// Drivers returns what the driver manager left; nil before the first PutDrivers.
	Drivers() (*DriverState, error)
	PutDrivers(*DriverState) error

	// PluginValues returns what a plugin keeps, by key.
	PluginValues(plugin string) (map[string]*PluginValue, error)
	PutPluginValue(plugin, key string, v *PluginValue) error
	DeletePluginValue(plugin, key string) error

	// Close closes the store; every method fails afterwards. It is idempotent.
	Close() error
}

// NodeIdentity is what makes this node the same after a restart.
type NodeIdentity struct {
	ID       string
	SecretID string
}

// Seen is what the node saw last of what it does not own: what differs from it at the next
// start has changed, or was lost, meanwhile.
type Seen struct {
	// BootID is the kernel's random ID of the machine's run.
	BootID string
	// ControlPlane is the ID of the control plane's memory; empty: not known.
	ControlPlane string
	// Index is the control plane's, of the newest answer that was applied.
	Index uint64
	// Standing is what the control plane has decided about the node; nil: not known.
	Standing *structs.NodeStanding `json:",omitempty"`
	// Waiting are the allocations that a person has to decide on, with the reason, by ID.
	Waiting map[string]string `json:",omitempty"`
}

// NodeMeta is the metadata that people set while the node runs.
type NodeMeta struct {
	// Dynamic is by name; nil unsets what the configuration sets.
	Dynamic map[string]*string
}

// PluginValue is one of the values that a plugin keeps.
type PluginValue struct {
	Version uint64
	Value   []byte
}

// DeviceState is what the device manager has still to do.
type DeviceState struct {
	// Owed are releases that a plugin has not answered yet, the oldest first.
	Owed []DeviceRelease
}

// DeviceRelease names devices that a task no longer uses.
type DeviceRelease struct {
	Devices structs.AllocatedDevice
	User    structs.DeviceUser
}

// DriverState is what the driver manager has still to do.
type DriverState struct {
	// Owed are networks of allocations that a driver has not let go of yet, the oldest first.
	Owed []NetworkRelease
}

// NetworkRelease is that a driver lets go of what it may have made for an allocation's network.
type NetworkRelease struct {
	Driver  string
	AllocID string
}

// TaskLocal is what a task runner needs to pick up where it left off.
type TaskLocal struct {
	// Hooks is the state of each task hook, by name.
	Hooks map[string]*HookState
	// TaskID is the current invocation's ID; empty: none was started. It is durable
	// before the driver is asked to start.
	TaskID string
	// Driver and PluginDigest name the driver and the exact plugin that started it.
	Driver       string
	PluginDigest string
	// Lost is set of what was read when Config, and Data and Env of Hooks, are missing because they
	// were sealed with a key that there is not any more.
	Lost bool `json:"-"`
	// Config and Handle are encoded abi messages: TaskConfig and TaskHandle.
	Config []byte
	Handle []byte
	// Network is an encoded abi DriverNetwork; empty: none.
	Network []byte
	// Restarts is the restart tracker's window, so that an agent restart does not
	// reset it.
	Restarts RestartWindow
	// RunComplete is set when the runner is done with the task for good.
	RunComplete bool
}

// HookState is what a task hook left.
type HookState struct {
	Done bool // not to be run again
	Data map[string]string
	Env  map[string]string
	// Mounts and Devices are kept so that a task restarted after an agent restart
	// still gets them.
	Mounts  []structs.Mount
	Devices []structs.DeviceNode
}

// RestartWindow is how often a task restarted within its policy's interval.
type RestartWindow struct {
	Count int
	Start int64 // ns since the Unix epoch
}
