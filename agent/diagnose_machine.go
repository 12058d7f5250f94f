package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/runners/network"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/process"
)

// features are what a node needs of its machine, and what some jobs do.
type features struct {
	os, processor string
	instructions  error // why the processor cannot run what is compiled for it
	kernel        string
	uid           int
	cgroups       bool  // version 2, and they can be made
	isolation     error // why processes cannot have namespaces, cgroups and seccomp
	paths         error // why processes cannot be held to paths
	namespaces    bool  // of users, which the kernel lets anybody make
	cniPath       string
	missingCNI    []string // the plugins for bridges that are not in cniPath
	now           time.Time
	synchronized  bool // something keeps the clock right
}

// Machine looks at what a node needs of its machine.
func (d *Findings) Machine(c Configured) { d.judge(machineFeatures(c.cfg.Client.CNIPath)) }

// Platform looks for a compiler of WebAssembly for this machine.
func (d *Findings) Platform() { d.platform(runtime.GOOS, runtime.GOARCH, sandbox.CheckProcessor()) }

// machineFeatures are those of this machine.
func machineFeatures(cniPath string) features {
	var name unix.Utsname
	_ = unix.Uname(&name) // it has no error where there is memory for the name
	text, err := os.ReadFile("/proc/sys/user/max_user_namespaces")
	namespaces, notNumber := strconv.Atoi(strings.TrimSpace(string(text)))
	var clock unix.Timex
	state, unknown := unix.Adjtimex(&clock)
	return features{
		os: runtime.GOOS, processor: runtime.GOARCH, instructions: sandbox.CheckProcessor(), kernel: unix.ByteSliceToString(name.Release[:]), uid: os.Geteuid(),
		cgroups: process.ParentCgroup() != "", isolation: process.CheckIsolation(workload.IsolationFull), paths: process.CheckIsolation(workload.IsolationPaths),
		namespaces: err == nil && notNumber == nil && namespaces > 0,
		cniPath:    cniPath, missingCNI: network.MissingPlugins(filepath.SplitList(cniPath)),
		now: time.Now(), synchronized: unknown != nil || state != unix.TIME_ERROR && clock.Status&unix.STA_UNSYNC == 0,
	}
}

// judge says of each feature whether it is there, what does not work without it, and what to do.
func (d *Findings) judge(m features) {
	d.platform(m.os, m.processor, m.instructions)
	d.Add(FindingOK, "machine", "kernel", "Linux "+m.kernel, "")
	const asRoot = "sudo wasmnode doctor"
	d.feature(m.uid == 0, "user", "root", fmt.Sprintf("this is user %d: an agent of root's may do what is missing below", m.uid), asRoot)
	cgroups, isolation := "mount -t cgroup2 none /sys/fs/cgroup, or boot with systemd.unified_cgroup_hierarchy=1; in a container, have it writable",
		"run the agent as root, with cgroups, and outside of a container that forbids namespaces"
	wrong := "no cgroup v2 hierarchy can be written to"
	if m.uid != 0 { // what the machine lacks is not to be seen
		wrong, cgroups, isolation = fmt.Sprintf("user %d can write to no cgroup v2 hierarchy", m.uid), asRoot, asRoot
	}
	d.feature(m.cgroups, "cgroups", "version 2", wrong+": processes are found and killed one by one, and have no limits", cgroups)
	d.feature(m.isolation == nil, "isolation", "processes can be isolated: namespaces, cgroups, seccomp", fmt.Sprintf("the driver exec does not work: %v", m.isolation), isolation)
	d.feature(m.paths == nil, "landlock", "processes can be isolated: paths", fmt.Sprintf("processes that a plugin starts cannot be held to paths: %v", m.paths),
		"use Linux 6.2 or later, booted with landlock among lsm=")
	// A node makes none, but engines without root do.
	d.feature(m.namespaces, "userns", "user namespaces can be made", "there are no user namespaces: container engines without root do not work", "sysctl user.max_user_namespaces=10000")
	d.feature(len(m.missingCNI) == 0, "cni", "the plugins for bridges are there",
		fmt.Sprintf("groups with a network of mode bridge find no place: %s is not in %s", strings.Join(m.missingCNI, ", "), m.cniPath),
		"apt install containernetworking-plugins, or name their directory in client.cni_path")
	d.clock(m.now, m.synchronized)
}

// feature adds what was found of a feature without which most works.
func (d *Findings) feature(there bool, name, well, wrong, next string) {
	if there {
		wrong = ""
	}
	d.addIf(wrong, FindingWarning, "machine", name, well, next)
}

func (d *Findings) platform(system, processor string, instructions error) {
	platform := system + "/" + processor
	if instructions != nil {
		d.Add(FindingFailed, "machine", "platform", fmt.Sprintf("%s: %v: the API answers, and no plugin is loaded", platform, instructions),
			"use a processor made since 2008, or give the virtual machine its host's: -cpu host, host-passthrough")
		return
	}
	wrong := ""
	if system != "linux" || processor != "amd64" && processor != "arm64" {
		wrong = platform + ": there is a compiler for linux/amd64 and linux/arm64 only"
	}
	d.addIf(wrong, FindingFailed, "machine", "platform", platform, "use a machine with one of these")
}

// clockEpoch is before this was written: a clock that is behind it is wrong.
var clockEpoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

func (d *Findings) clock(now time.Time, synchronized bool) {
	const next = "timedatectl set-ntp true"
	if now.Before(clockEpoch) {
		d.Add(FindingFailed, "machine", "clock", fmt.Sprintf("it says %s: certificates and tokens are not valid yet", now.Format(time.DateOnly)), next)
		return
	}
	d.feature(synchronized, "clock", "it is kept right", "nothing keeps it right: certificates, tokens and periodic jobs go by it", next)
}
