package main

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	nomad "github.com/hashicorp/nomad/api"
)

// nodeUsage is what a node uses now, and what its allocations use of that.
type nodeUsage struct {
	host        *nomad.HostStats
	cpu, memory float64 // of the allocations: MHz, bytes
}

// nodeUsageOf asks for it; nil: it was not wanted, or the node is not there to be asked.
func nodeUsageOf(client *nomad.Client, n *nomad.Node, allocs []*nomad.Allocation, o nodeStatusFlags) (*nodeUsage, error) {
	if !o.stats && (o.short || n.Status != nomad.NodeStatusReady) {
		return nil, nil
	}
	host, err := client.Nodes().Stats(n.ID, nil)
	if err != nil {
		return nil, err
	}
	u := &nodeUsage{host: host}
	for _, a := range allocs {
		if a.ClientStatus != nomad.AllocClientStatusRunning {
			continue
		}
		s, err := client.Allocations().Stats(a, nil)
		if err != nil || s.ResourceUsage == nil {
			continue // it has ended meanwhile
		}
		if c := s.ResourceUsage.CpuStats; c != nil {
			u.cpu += c.TotalTicks
		}
		if m := s.ResourceUsage.MemoryStats; m != nil {
			u.memory += float64(max(m.RSS, m.Usage))
		}
	}
	return u, nil
}

func (u *nodeUsage) uptime() string {
	if u == nil {
		return ""
	}
	return (time.Duration(u.host.Uptime) * time.Second).String()
}

// usage prints what is used; each: also by each processor, file system and device.
func (c *nodeStatusCommand) usage(f *flags, n *nomad.Node, u *nodeUsage, each bool) {
	memory := humanize.IBytes(u.host.Memory.Total)
	mhz := func(used float64) string { return fmt.Sprintf("%.0f/%d MHz", used, n.NodeResources.Cpu.CpuShares) }
	c.ui.Output("\nAllocation Resource Utilization")
	c.table([][]string{{"CPU", "Memory"}, {mhz(u.cpu), humanize.IBytes(uint64(u.memory)) + "/" + memory}})
	c.ui.Output("\nHost Resource Utilization")
	disk := "N/A"
	if d := u.host.AllocDirStats; d != nil && d.Size > 0 {
		disk = humanize.IBytes(d.Used) + "/" + humanize.IBytes(d.Size)
	}
	c.table([][]string{{"CPU", "Memory", "Disk"}, {mhz(u.host.CPUTicksConsumed), humanize.IBytes(u.host.Memory.Used) + "/" + memory, disk}})
	if each {
		c.hostStats(u.host)
		c.deviceStats(u.host.DeviceStats, *f.verbose)
	}
}

func (c *nodeStatusCommand) hostStats(s *nomad.HostStats) {
	percent := func(p float64) string { return fmt.Sprintf("%.2f%%", p) }
	for i, p := range s.CPU {
		c.section("CPU Stats", i, [][2]string{
			{"CPU", p.CPU}, {"User", percent(p.User)}, {"System", percent(p.System)}, {"Idle", percent(p.Idle)},
		})
	}
	c.section("Memory Stats", 0, [][2]string{
		{"Total", humanize.IBytes(s.Memory.Total)}, {"Available", humanize.IBytes(s.Memory.Available)},
		{"Used", humanize.IBytes(s.Memory.Used)}, {"Free", humanize.IBytes(s.Memory.Free)},
	})
	for i, d := range s.DiskStats {
		c.section("Disk Stats", i, [][2]string{
			{"Device", d.Device}, {"MountPoint", d.Mountpoint},
			{"Size", humanize.IBytes(d.Size)}, {"Used", humanize.IBytes(d.Used)}, {"Available", humanize.IBytes(d.Available)},
			{"Used Percent", percent(d.UsedPercent)}, {"Inodes Percent", percent(d.InodesUsedPercent)},
		})
	}
}

// section prints the nth of several things with a heading.
func (c *nodeStatusCommand) section(heading string, n int, pairs [][2]string) {
	if n == 0 {
		c.ui.Output("\n" + heading)
	} else {
		c.ui.Output("")
	}
	c.pairs(pairs)
}
