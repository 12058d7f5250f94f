package agent

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wasmnode/wasmnode/httpapi/telemetry"
	"github.com/wasmnode/wasmnode/structs"
)

// The machine's metrics, with the names and the labels that Nomad's clients give them. Those are
// bounded by the number of processors.
var (
	hostCPUUser         = telemetry.Describe("nomad.client.host.cpu.user", "Share of a processor's time in programs, in percent.", machineLabels("cpu")...)
	hostCPUSystem       = telemetry.Describe("nomad.client.host.cpu.system", "Share of a processor's time in the kernel, in percent.", machineLabels("cpu")...)
	hostCPUIdle         = telemetry.Describe("nomad.client.host.cpu.idle", "Share of a processor's time without work, in percent.", machineLabels("cpu")...)
	hostCPUTicks        = telemetry.Describe("nomad.client.host.cpu.total_ticks", "What of a processor is used, in MHz.", machineLabels("cpu")...)
	hostCPUPercent      = telemetry.Describe("nomad.client.host.cpu.total_percent", "Share of a processor's time that is used, in percent.", machineLabels("cpu")...)
	hostCPUTotal        = telemetry.Describe("nomad.client.host.cpu.total", "The same, by its older name.", machineLabels("cpu")...)
	hostMemoryTotal     = telemetry.Describe("nomad.client.host.memory.total", "Memory of the machine, in bytes.", machineLabels()...)
	hostMemoryAvailable = telemetry.Describe("nomad.client.host.memory.available", "Memory that programs could have, in bytes.", machineLabels()...)
	hostMemoryUsed      = telemetry.Describe("nomad.client.host.memory.used", "Memory that is in use, in bytes.", machineLabels()...)
	hostMemoryFree      = telemetry.Describe("nomad.client.host.memory.free", "Memory that nothing has, in bytes.", machineLabels()...)
	hostDiskSize        = telemetry.Describe("nomad.client.host.disk.size", "Size of the file system of the allocations, in bytes.", machineLabels("disk")...)
	hostDiskUsed        = telemetry.Describe("nomad.client.host.disk.used", "What of it is used, in bytes.", machineLabels("disk")...)
	hostDiskAvailable   = telemetry.Describe("nomad.client.host.disk.available", "What of it is available, in bytes.", machineLabels("disk")...)
	hostDiskPercent     = telemetry.Describe("nomad.client.host.disk.used_percent", "What of it is used, in percent.", machineLabels("disk")...)
	hostInodesPercent   = telemetry.Describe("nomad.client.host.disk.inodes_percent", "What of its inodes is used, in percent.", machineLabels("disk")...)
	hostUptime          = telemetry.Describe("nomad.client.uptime", "Seconds since the machine started.", machineLabels()...)
)

// machineLabels are those of a node and, before them, others.
func machineLabels(more ...string) []string { return append(more, nodeLabels...) }

// hostMetrics are what the machine uses. Its processors' use is that since it was read
// before, a second ago or longer, by whomever; at first since the machine started.
type hostMetrics struct {
	node  func() *structs.Node
	usage func() (*structs.HostUsage, error)
}

// Describe implements [prometheus.Collector].
func (hostMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		hostCPUUser, hostCPUSystem, hostCPUIdle, hostCPUTicks, hostCPUPercent, hostCPUTotal,
		hostMemoryTotal, hostMemoryAvailable, hostMemoryUsed, hostMemoryFree,
		hostDiskSize, hostDiskUsed, hostDiskAvailable, hostDiskPercent, hostInodesPercent, hostUptime,
	} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (m hostMetrics) Collect(out chan<- prometheus.Metric) {
	u, err := m.usage()
	n := m.node()
	if err != nil || n == nil {
		return // the other metrics are worth having
	}
	of := labelsOf(n)
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, slices.Concat(labels, of)...)
	}
	collectProcessors(gauge, u)
	gauge(hostMemoryTotal, float64(u.Memory.Total))
	gauge(hostMemoryAvailable, float64(u.Memory.Available))
	gauge(hostMemoryUsed, float64(u.Memory.Used))
	gauge(hostMemoryFree, float64(u.Memory.Free))
	if d := u.AllocsDisk; d != nil {
		disk := telemetry.Label(d.Path)
		gauge(hostDiskSize, float64(d.Size), disk)
		gauge(hostDiskUsed, float64(d.Used), disk)
		gauge(hostDiskAvailable, float64(d.Available), disk)
		gauge(hostDiskPercent, d.UsedPercent, disk)
		gauge(hostInodesPercent, d.InodesUsedPercent, disk)
	}
	if u.Uptime > 0 {
		gauge(hostUptime, float64(u.Uptime))
	}
}

func collectProcessors(gauge func(*prometheus.Desc, float64, ...string), u *structs.HostUsage) {
	busy := 0.0
	for _, p := range u.Processors {
		busy += 100 - p.Idle
	}
	for _, p := range u.Processors {
		used, mhz := 100-p.Idle, 0.0
		if busy > 0 {
			mhz = u.CPUMHz * used / busy
		}
		gauge(hostCPUUser, p.User, p.Name)
		gauge(hostCPUSystem, p.System, p.Name)
		gauge(hostCPUIdle, p.Idle, p.Name)
		gauge(hostCPUPercent, used, p.Name)
		gauge(hostCPUTotal, used, p.Name)
		gauge(hostCPUTicks, mhz, p.Name)
	}
}
