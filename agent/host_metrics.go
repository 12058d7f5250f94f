package agent

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/wasmnode/wasmnode/structs"
)

// The machine's metrics, with the names that Nomad's clients give them. Their labels are
// bounded by the number of processors.
var (
	hostCPUUser         = describe("nomad_client_host_cpu_user", "Share of a processor's time in programs, in percent.", "cpu")
	hostCPUSystem       = describe("nomad_client_host_cpu_system", "Share of a processor's time in the kernel, in percent.", "cpu")
	hostCPUIdle         = describe("nomad_client_host_cpu_idle", "Share of a processor's time without work, in percent.", "cpu")
	hostCPUTicks        = describe("nomad_client_host_cpu_total_ticks", "What of all processors is used, in MHz.")
	hostMemoryTotal     = describe("nomad_client_host_memory_total", "Memory of the machine, in bytes.")
	hostMemoryAvailable = describe("nomad_client_host_memory_available", "Memory that programs could have, in bytes.")
	hostMemoryUsed      = describe("nomad_client_host_memory_used", "Memory that is in use, in bytes.")
	hostMemoryFree      = describe("nomad_client_host_memory_free", "Memory that nothing has, in bytes.")
	hostDiskSize        = describe("nomad_client_host_disk_size", "Size of the file system of the allocations, in bytes.", "disk")
	hostDiskUsed        = describe("nomad_client_host_disk_used", "What of it is used, in bytes.", "disk")
	hostDiskAvailable   = describe("nomad_client_host_disk_available", "What of it is available, in bytes.", "disk")
	hostDiskPercent     = describe("nomad_client_host_disk_used_percent", "What of it is used, in percent.", "disk")
	hostInodesPercent   = describe("nomad_client_host_disk_inodes_percent", "What of its inodes is used, in percent.", "disk")
	hostUptime          = describe("nomad_client_uptime", "Seconds since the machine started.")
)

// hostMetrics are what the machine uses. Its processors' use is that since it was read
// before, a second ago or longer, by whomever; at first since the machine started.
type hostMetrics struct {
	usage func() (*structs.HostUsage, error)
}

// Describe implements [prometheus.Collector].
func (hostMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		hostCPUUser, hostCPUSystem, hostCPUIdle, hostCPUTicks, hostMemoryTotal, hostMemoryAvailable, hostMemoryUsed, hostMemoryFree,
		hostDiskSize, hostDiskUsed, hostDiskAvailable, hostDiskPercent, hostInodesPercent, hostUptime,
	} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (m hostMetrics) Collect(out chan<- prometheus.Metric) {
	u, err := m.usage()
	if err != nil {
		return // the other metrics are worth having
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, p := range u.Processors {
		gauge(hostCPUUser, p.User, p.Name)
		gauge(hostCPUSystem, p.System, p.Name)
		gauge(hostCPUIdle, p.Idle, p.Name)
	}
	if len(u.Processors) > 0 {
		gauge(hostCPUTicks, u.CPUMHz)
	}
	gauge(hostMemoryTotal, float64(u.Memory.Total))
	gauge(hostMemoryAvailable, float64(u.Memory.Available))
	gauge(hostMemoryUsed, float64(u.Memory.Used))
	gauge(hostMemoryFree, float64(u.Memory.Free))
	if d := u.AllocsDisk; d != nil {
		disk := plain(d.Path)
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
