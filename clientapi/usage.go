package clientapi

import (
	"cmp"
	"maps"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// AllocationUsage renders what an allocation's tasks use, and their sum.
func AllocationUsage(a *structs.AllocationUsage) *nomad.AllocResourceUsage {
	out := &nomad.AllocResourceUsage{ResourceUsage: emptyUsage(), Tasks: map[string]*nomad.TaskResourceUsage{}, Timestamp: a.Time.UnixNano()}
	sum := out.ResourceUsage
	for name, t := range a.Tasks {
		u := taskUsage(t)
		out.Tasks[name] = &nomad.TaskResourceUsage{ResourceUsage: u, Timestamp: t.TimeNs}
		sum.CpuStats.Percent += u.CpuStats.Percent
		sum.CpuStats.TotalTicks += u.CpuStats.TotalTicks
		sum.CpuStats.UserMode += u.CpuStats.UserMode
		sum.CpuStats.SystemMode += u.CpuStats.SystemMode
		sum.CpuStats.Measured = union(sum.CpuStats.Measured, u.CpuStats.Measured)
		sum.MemoryStats.RSS += u.MemoryStats.RSS
		sum.MemoryStats.Usage += u.MemoryStats.Usage
		sum.MemoryStats.MaxUsage += u.MemoryStats.MaxUsage
		sum.MemoryStats.Measured = union(sum.MemoryStats.Measured, u.MemoryStats.Measured)
		sum.DeviceStats = mergeDeviceStats(sum.DeviceStats, u.DeviceStats)
	}
	return out
}

func emptyUsage() *nomad.ResourceUsage {
	return &nomad.ResourceUsage{MemoryStats: &nomad.MemoryStats{}, CpuStats: &nomad.CpuStats{}, DeviceStats: []*nomad.DeviceGroupStats{}}
}

// taskUsage renders a driver's measurements; Measured names those that were made.
func taskUsage(t *structs.TaskUsage) *nomad.ResourceUsage {
	u := emptyUsage()
	if c := t.CPU; c != nil {
		u.CpuStats = cpuStats(c)
	}
	if t.MemoryRSS != nil {
		u.MemoryStats.RSS, u.MemoryStats.Usage = *t.MemoryRSS, *t.MemoryRSS
		u.MemoryStats.Measured = append(u.MemoryStats.Measured, "RSS", "Usage")
	}
	if t.MemoryMax != nil {
		u.MemoryStats.MaxUsage = *t.MemoryMax
		u.MemoryStats.Measured = append(u.MemoryStats.Measured, "Max Usage")
	}
	for _, g := range t.Devices {
		u.DeviceStats = mergeDeviceStats(u.DeviceStats, []*nomad.DeviceGroupStats{deviceGroupStats(g)})
	}
	return u
}

// cpuStats renders the use of processors. A mode is in percent, as the whole is.
func cpuStats(c *structs.CPUUsage) *nomad.CpuStats {
	out := &nomad.CpuStats{Percent: c.Percent, TotalTicks: c.MHz, Measured: []string{"Percent", "Total Ticks"}}
	if c.User != nil {
		out.UserMode, out.Measured = *c.User, append(out.Measured, "User Mode")
	}
	if c.System != nil {
		out.SystemMode, out.Measured = *c.System, append(out.Measured, "System Mode")
	}
	return out
}

func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}

// HostStats is what Nomad's agent answers of a machine: its Go client leaves the time out, by
// which its UI draws, and some of what it tells of a processor.
type HostStats struct {
	Memory           *nomad.HostMemoryStats
	CPU              []ProcessorStats
	DiskStats        []*nomad.HostDiskStats
	AllocDirStats    *nomad.HostDiskStats
	DeviceStats      []*nomad.DeviceGroupStats
	Uptime           uint64 // seconds
	Timestamp        int64  // ns since 1970
	CPUTicksConsumed float64
}

// ProcessorStats tell what part of its time, in percent, and how many MHz of a processor are used.
type ProcessorStats struct {
	CPU                      string
	User, System, Idle       float64
	TotalPercent, TotalTicks float64
}

// HostUsage renders what the machine uses, as measured at a time.
func HostUsage(u *structs.HostUsage, at time.Time) *HostStats {
	out := &HostStats{
		Memory:           &nomad.HostMemoryStats{Total: u.Memory.Total, Available: u.Memory.Available, Used: u.Memory.Used, Free: u.Memory.Free},
		CPU:              make([]ProcessorStats, 0, len(u.Processors)),
		CPUTicksConsumed: u.CPUMHz,
		DiskStats:        []*nomad.HostDiskStats{},
		AllocDirStats:    &nomad.HostDiskStats{},
		DeviceStats:      make([]*nomad.DeviceGroupStats, 0, len(u.Devices)),
		Uptime:           u.Uptime,
		Timestamp:        at.UnixNano(),
	}
	busy := 0.0
	for _, p := range u.Processors {
		busy += 100 - p.Idle
	}
	for _, p := range u.Processors {
		s := ProcessorStats{CPU: p.Name, User: p.User, System: p.System, Idle: p.Idle, TotalPercent: 100 - p.Idle}
		if busy > 0 {
			s.TotalTicks = u.CPUMHz * s.TotalPercent / busy
		}
		out.CPU = append(out.CPU, s)
	}
	if d := u.AllocsDisk; d != nil {
		out.AllocDirStats = &nomad.HostDiskStats{
			Device: d.Path, Mountpoint: d.Path, Size: d.Size, Used: d.Used,
			Available: d.Available, UsedPercent: d.UsedPercent, InodesUsedPercent: d.InodesUsedPercent,
		}
		out.DiskStats = append(out.DiskStats, out.AllocDirStats)
	}
	for _, g := range u.Devices {
		out.DeviceStats = append(out.DeviceStats, deviceGroupStats(g))
	}
	return out
}

// mergeDeviceStats joins figures so that each group is there once, sorted: one that two
// tasks use is still one group.
func mergeDeviceStats(all, more []*nomad.DeviceGroupStats) []*nomad.DeviceGroupStats {
	for _, g := range more {
		i, known := slices.BinarySearchFunc(all, g, compareDeviceStats)
		if !known {
			c := *g
			c.InstanceStats = maps.Clone(g.InstanceStats)
			all = slices.Insert(all, i, &c)
			continue
		}
		maps.Copy(all[i].InstanceStats, g.InstanceStats)
	}
	return all
}

func compareDeviceStats(a, b *nomad.DeviceGroupStats) int {
	return cmp.Or(cmp.Compare(a.Vendor, b.Vendor), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
}

// deviceGroupStats renders a group's figures.
func deviceGroupStats(g *structs.DeviceGroupStats) *nomad.DeviceGroupStats {
	out := &nomad.DeviceGroupStats{
		Vendor: g.ID.Vendor, Type: g.ID.Type, Name: g.ID.Name,
		InstanceStats: make(map[string]*nomad.DeviceStats, len(g.Devices)),
	}
	for id, s := range g.Devices {
		out.InstanceStats[id] = &nomad.DeviceStats{Summary: statValue(s.Summary), Stats: statObject(s.Stats), Timestamp: s.Time}
	}
	return out
}

func statObject(o *structs.StatObject) *nomad.StatObject {
	if o == nil {
		return nil
	}
	out := &nomad.StatObject{Nested: make(map[string]*nomad.StatObject, len(o.Nested)), Attributes: make(map[string]*nomad.StatValue, len(o.Attributes))}
	for name, nested := range o.Nested {
		out.Nested[name] = statObject(nested)
	}
	for name, v := range o.Attributes {
		out.Attributes[name] = statValue(v)
	}
	return out
}

func statValue(v *structs.StatValue) *nomad.StatValue {
	if v == nil {
		return nil
	}
	return &nomad.StatValue{
		FloatNumeratorVal: v.Float, FloatDenominatorVal: v.FloatDenominator,
		IntNumeratorVal: v.Int, IntDenominatorVal: v.IntDenominator,
		StringVal: v.String, BoolVal: v.Bool, Unit: v.Unit, Desc: v.Description,
	}
}
