// Package hostinfo reports what the machine is and how much of it is used: its system, its
// processors, its memory, and the file system of a directory. It reads Linux's own
// files, knows nothing of nodes and tasks, and keeps nothing: each call reads again. It
// may be used concurrently. Start reading at [System].
package hostinfo

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Memory is the machine's memory, in bytes.
type Memory struct{ Total, Available, Used, Free uint64 }

// ReadMemory reads how much memory there is.
func ReadMemory() (Memory, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return Memory{}, err
	}
	info, err := proc.Meminfo()
	if err != nil {
		return Memory{}, err
	}
	if info.MemTotalBytes == nil || info.MemAvailableBytes == nil || info.MemFreeBytes == nil {
		return Memory{}, fmt.Errorf("/proc/meminfo lacks MemTotal, MemAvailable or MemFree")
	}
	m := Memory{Total: *info.MemTotalBytes, Available: *info.MemAvailableBytes, Free: *info.MemFreeBytes}
	m.Used = m.Total - min(m.Total, m.Available)
	return m, nil
}

// Disk is a file system, in bytes; Free is what a user without privileges may take. The
// shares are percentages.
type Disk struct {
	Total, Used, Free              uint64
	UsedPercent, InodesUsedPercent float64
}

// ReadDisk reads how full the file system of a directory is.
func ReadDisk(dir string) (Disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return Disk{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	block := uint64(s.Bsize)
	d := Disk{Total: s.Blocks * block, Used: (s.Blocks - s.Bfree) * block, Free: s.Bavail * block}
	d.UsedPercent = percent(d.Used, d.Used+d.Free)
	d.InodesUsedPercent = percent(s.Files-min(s.Files, s.Ffree), s.Files)
	return d, nil
}

func percent(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// Processor is the first processor: what it is called and its highest frequency, or
// where the kernel does not report that, its frequency now. Empty and 0: not reported.
type Processor struct {
	Model string
	MHz   float64
	// Sockets are those that all processors are in, by their numbers; nil: not reported.
	Sockets []int
}

// ReadProcessor reads what the processors are.
func ReadProcessor() (Processor, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return Processor{}, err
	}
	infos, err := proc.CPUInfo()
	if err != nil || len(infos) == 0 {
		return Processor{}, err
	}
	p := Processor{Model: strings.TrimSpace(infos[0].ModelName), MHz: infos[0].CPUMHz, Sockets: sockets(infos)}
	text, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", infos[0].Processor))
	if err != nil {
		return p, nil // there is none in most virtual machines
	}
	if khz, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err == nil {
		p.MHz = khz / 1000
	}
	return p, nil
}

func sockets(infos []procfs.CPUInfo) []int {
	in := make([]int, len(infos))
	for i, info := range infos {
		socket, err := strconv.Atoi(info.PhysicalID)
		if err != nil || info.Processor != uint(i) {
			return nil // not reported, or some processors are off
		}
		in[i] = socket
	}
	return in
}

// Times is the time that a processor has spent on what since the machine started, in
// seconds.
type Times struct {
	CPU                                                   string // "cpu0"
	User, Nice, System, Idle, Iowait, Irq, Softirq, Steal float64
}

// ReadTimes reads the times of each processor, in their order.
func ReadTimes() ([]Times, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, err
	}
	stat, err := proc.Stat()
	if err != nil {
		return nil, err
	}
	var times []Times
	for _, id := range slices.Sorted(maps.Keys(stat.CPU)) {
		c := stat.CPU[id]
		times = append(times, Times{
			CPU:  "cpu" + strconv.FormatInt(id, 10),
			User: c.User, Nice: c.Nice, System: c.System, Idle: c.Idle, Iowait: c.Iowait,
			Irq: c.IRQ, Softirq: c.SoftIRQ, Steal: c.Steal,
		})
	}
	return times, nil
}

// Uptime is how long ago the machine started.
func Uptime() (time.Duration, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, err
	}
	return time.Duration(info.Uptime) * time.Second, nil
}

// BootID is the random ID that the kernel drew when the machine started.
func BootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(id)), nil
}

// System is the operating system. What is not reported is empty.
type System struct {
	Kernel        string // its release
	Machine       string // what the kernel is built for, such as x86_64
	Hostname      string
	Name, Version string // of the distribution
}

// ReadSystem reads what the operating system is.
func ReadSystem() System {
	s := readDistribution("/etc")
	s.Hostname, _ = os.Hostname()
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		s.Kernel = unix.ByteSliceToString(name.Release[:])
		s.Machine = unix.ByteSliceToString(name.Machine[:])
	}
	return s
}

// Uname is what the kernel says of itself: for what it is built, where it runs, and its release,
// name and version.
func Uname() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	text := func(b []byte) string { return unix.ByteSliceToString(b) }
	return strings.Join([]string{text(name.Machine[:]), text(name.Nodename[:]), text(name.Release[:]), text(name.Sysname[:]), text(name.Version[:])}, " ")
}

// MountPoint is where the file system of a directory is mounted; of one that is not there, the
// directory itself.
func MountPoint(dir string) string {
	var here, above unix.Stat_t
	if unix.Stat(dir, &here) != nil {
		return dir
	}
	for dir != "/" && unix.Stat(filepath.Dir(dir), &above) == nil && above.Dev == here.Dev {
		dir = filepath.Dir(dir)
	}
	return dir
}

// readDistribution reads the name and version that a distribution gives itself below etc,
// as Nomad's clients report them.
func readDistribution(etc string) (s System) {
	text, err := os.ReadFile(filepath.Join(etc, "os-release"))
	if err != nil {
		return s
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch value = strings.Trim(value, `"'`); key {
		case "ID":
			s.Name = value
		case "VERSION_ID":
			s.Version = value
		}
	}
	switch s.Name {
	case "rhel":
		s.Name = "redhat"
	case "amzn":
		s.Name = "amazon"
	case "ol":
		s.Name = "oracle"
	case "debian": // its os-release has only the major version
		if text, err := os.ReadFile(filepath.Join(etc, "debian_version")); err == nil {
			s.Version = strings.TrimSpace(string(text))
		}
	}
	return s
}
