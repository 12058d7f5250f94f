package structs

import "time"

// AllocationUsage is what an allocation's tasks use.
type AllocationUsage struct {
	Tasks map[string]*TaskUsage
	Time  time.Time // when it was asked
}

// TaskUsage is what a task uses. What its driver does not measure is nil.
type TaskUsage struct {
	MemoryRSS *uint64 // bytes
	MemoryMax *uint64 // bytes, since the task started
	// Devices are the figures of the devices that the task was given.
	Devices []*DeviceGroupStats
	TimeNs  int64 // when it was measured, since the Unix epoch
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
