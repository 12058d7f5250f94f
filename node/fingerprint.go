package node

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/internal/hostinfo"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

const mebibyte = 1 << 20

// bytesFree is the attribute that changes all the time.
const bytesFree = "unique.storage.bytesfree"

// fallbackMHz is taken for a core whose frequency the kernel does not report, so that
// tasks can be placed at all.
const fallbackMHz = 1000

// nomadVersion is the attribute nomad.version, which constraints of job files compare: the Nomad
// whose client this node does as. What it is itself is wasmnode.version.
const nomadVersion = "2.0.5"

// fingerprint finds out what the machine is and has. What cannot be found out is left
// out, but for memory and disk, without which nothing can be placed.
func fingerprint(n *structs.Node, allocsDir string) error {
	n.Attributes = map[string]string{
		"cpu.arch":      runtime.GOARCH,
		"cpu.numcores":  strconv.Itoa(runtime.NumCPU()),
		"kernel.name":   runtime.GOOS,
		"nomad.version": nomadVersion,
		"os.signals":    strings.Join(workload.Signals(), ","),
		"unique.name":   n.Name,
	}
	set := func(key, value string) {
		if value != "" {
			n.Attributes[key] = value
		}
	}
	set("wasmnode.version", n.Version)
	set("unique.advertise.address", n.HTTPAddress)
	fingerprintCPU(n, set)
	return fingerprintMachine(n, allocsDir)
}

// fingerprintMachine finds out what may change while the agent runs. Processors are not of
// it: what the runtime knows of them does not change.
func fingerprintMachine(n *structs.Node, allocsDir string) error {
	set := func(key, value string) {
		if value != "" {
			n.Attributes[key] = value
		}
	}
	system := hostinfo.ReadSystem()
	set("kernel.version", system.Kernel)
	set("kernel.arch", system.Machine)
	set("os.cgroups.version", hostinfo.CgroupVersion())
	set("os.name", system.Name)
	set("os.version", system.Version)
	set("unique.hostname", system.Hostname)
	var ip string
	ip, n.Interface = address()
	set("unique.network.ip-address", ip)
	n.HostNetworks = withAddresses(n.HostNetworks)
	memory, err := hostinfo.ReadMemory()
	if err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	n.Resources.MemoryMB = int(memory.Total / mebibyte)
	set("memory.totalbytes", strconv.FormatUint(memory.Total, 10))
	return fingerprintDisk(n, allocsDir, set)
}

func fingerprintCPU(n *structs.Node, set func(string, string)) {
	n.Resources.Cores = runtime.NumCPU()
	mhz := fallbackMHz
	if first, err := hostinfo.ReadProcessor(); err == nil {
		set("cpu.modelname", first.Model)
		n.Sockets = first.Sockets
		if first.MHz > 0 {
			mhz = int(first.MHz)
		}
	}
	n.Resources.CPUMHz = mhz * n.Resources.Cores
	set("cpu.frequency", strconv.Itoa(mhz))
	set("cpu.totalcompute", strconv.Itoa(n.Resources.CPUMHz))
	if kept := n.ReservedCores.CountBelow(n.Resources.Cores); kept > 0 {
		n.Reserved.CPUMHz = max(n.Reserved.CPUMHz, kept*mhz)
	}
	set("cpu.usablecompute", strconv.Itoa(max(0, n.Resources.CPUMHz-n.Reserved.CPUMHz)))
	set("cpu.reservablecores", strconv.Itoa(n.Resources.Cores-n.ReservedCores.CountBelow(n.Resources.Cores)))
	nodes := hostinfo.ReadMemoryNodes()
	set("numa.node.count", strconv.Itoa(max(1, len(nodes))))
	for _, near := range nodes {
		set(fmt.Sprintf("numa.node%d.cores", near.ID), near.Cores)
	}
}

// fingerprintSecrets says where tasks' secrets directories are.
func fingerprintSecrets(n *structs.Node, inMemory bool) {
	n.Attributes["wasmnode.secrets"] = "disk"
	if inMemory {
		n.Attributes["wasmnode.secrets"] = "memory"
	}
}

func fingerprintDisk(n *structs.Node, dir string, set func(string, string)) error {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return fmt.Errorf("allocation directory: %w", err)
	}
	usage, err := hostinfo.ReadDisk(dir)
	if err != nil {
		return fmt.Errorf("disk: %w", err)
	}
	n.Resources.DiskMB = int(usage.Free / mebibyte)
	set("unique.storage.volume", dir)
	set("unique.storage.bytestotal", strconv.FormatUint(usage.Total, 10))
	set(bytesFree, strconv.FormatUint(usage.Free, 10))
	return nil
}

// UpdateDisk tells the control plane how much room there is now, as the start did: what
// was full then can be placed on again.
func (n *Node) UpdateDisk() {
	n.self.update(func(next *structs.Node) bool {
		before := next.Resources.DiskMB
		set := func(key, value string) { next.Attributes[key] = value }
		if err := fingerprintDisk(next, n.cfg.AllocsDir, set); err != nil {
			n.logger.Warn("the disk could not be looked at", "error", err)
			return false
		}
		return next.Resources.DiskMB != before
	})
}

// address is the first address that others could reach the machine at, or loopback, and the
// interface that has it.
func address() (string, structs.NetworkInterface) {
	interfaces, err := net.Interfaces()
	if err != nil {
		interfaces = nil // then there are none
	}
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil {
			continue // it is gone
		}
		for _, a := range addrs {
			if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
				return ip.IP.String(), structs.NetworkInterface{Name: i.Name, MAC: i.HardwareAddr.String()}
			}
		}
	}
	return "127.0.0.1", structs.NetworkInterface{Name: "lo"}
}
