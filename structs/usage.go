package structs

import "time"

// AllocationUsage is what an allocation's tasks use.
type AllocationUsage struct {
	Tasks map[string]*TaskUsage
	Time  time.Time // when it was asked
}

// TaskUsage is what a task uses. What its driver does not measure is nil.
type TaskUsage struct {
	CPU       *CPUUsage
	MemoryRSS *uint64 // bytes
	MemoryMax *uint64 // bytes, since the task started
	// Devices are the figures of the devices that the task was given.
	Devices []*DeviceGroupStats
	TimeNs  int64 // when it was measured, since the Unix epoch
}

// CPUUsage is the processor time that a task uses.
type CPUUsage struct {
	Total time.Duration // since the task started
	// Percent is how much of one processor it used since it was measured before, a second
	// ago or longer, or at first since it started: 200 is two processors. User and System
	// are the parts in its programs and in the kernel; nil: not told apart.
	Percent      float64
	User, System *float64
	MHz          float64 // Percent of a processor's frequency
}

// HostUsage is what a machine uses.
type HostUsage struct {
	Memory MemoryUsage
	// Processors is empty where the machine does not report it.
	Processors []ProcessorUsage
	CPUMHz     float64    // of all processors
	AllocsDisk *DiskUsage // the file system of the allocations; nil: unknown
	Devices    []*DeviceGroupStats
	Uptime     uint64 // seconds; 0: unknown
}

// MemoryUsage is a machine's memory, in bytes.
type MemoryUsage struct{ Total, Available, Used, Free uint64 }

// ProcessorUsage is what part of its time a processor spends on what, in percent.
type ProcessorUsage struct {
	Name               string
	User, System, Idle float64
}

// DiskUsage is how full a file system is.
type DiskUsage struct {
	Path                           string
	Size, Used, Available          uint64 // bytes
	UsedPercent, InodesUsedPercent float64
}
