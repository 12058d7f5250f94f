package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

// builder makes the specification of a container, of the Open Container Initiative's form. The
// first thing that is refused is its error.
type builder struct {
	d     *containerd
	t     *driver.TaskConfig
	c     *taskConfig
	image *image
	id    string
	// local are paths of the task's directories that it mounts, and that no link may lead away.
	local []string
	err   error
}

func (b *builder) refuse(text string) {
	if b.err == nil {
		b.err = abi.NewError(abi.InvalidArgument, text)
	}
}

// specification is the container, in JSON.
func (b *builder) specification() ([]byte, error) {
	linux := object{
		"cgroupsPath": "/" + b.d.engine.namespace + "/" + b.id,
		"resources":   b.resources(),
		"namespaces":  b.namespaces(),
	}
	if !b.c.privileged {
		linux["maskedPaths"], linux["readonlyPaths"] = maskedPaths, readonlyPaths
	}
	if len(b.c.sysctl) > 0 {
		linux["sysctl"] = b.c.sysctl
	}
	spec := object{
		"ociVersion": "1.0.2",
		"process":    b.process(),
		"root":       object{"path": "rootfs", "readonly": b.c.readonly},
		"mounts":     b.mounts(),
		"linux":      linux,
	}
	if name := b.hostname(); name != "" {
		spec["hostname"] = name
	}
	return appendJSON(nil, spec), b.err
}

// Paths of the kernel's that tell about the machine, or change it.
var (
	maskedPaths = []string{
		"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
		"/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// process is what runs in the container, and as whom.
func (b *builder) process() object {
	c := b.c
	entrypoint, command := b.image.entrypoint, b.image.command
	if len(c.entrypoint) > 0 {
		entrypoint, command = c.entrypoint, nil
	}
	if c.command != "" {
		command = append([]string{c.command}, c.args...)
	} else if len(c.args) > 0 {
		command = c.args
	}
	args := slices.Concat(entrypoint, command)
	if len(args) == 0 {
		b.refuse("image " + b.image.name + " has no command, and the task has none")
	}
	dir := c.cwd
	if dir == "" {
		dir = "/" + strings.TrimPrefix(b.image.dir, "/")
	}
	allowed := b.capabilities()
	return object{
		"args": args, "cwd": dir, "env": b.env(), "user": b.user(), "terminal": c.tty,
		"noNewPrivileges": !c.privileged,
		"capabilities":    object{"bounding": allowed, "effective": allowed, "permitted": allowed},
	}
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// env is the image's environment, and over it the task's.
func (b *builder) env() []string {
	all := map[string]string{"PATH": defaultPath}
	if b.c.tty {
		all["TERM"] = "xterm"
	}
	for _, text := range b.image.env {
		name, value, _ := strings.Cut(text, "=")
		all[name] = value
	}
	maps.Copy(all, b.t.Env)
	env := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env
}

// user is by number: to look a name up, the image would have to be mounted.
func (b *builder) user() object {
	text, whose := b.t.User, "the task's user "
	if text == "" {
		text, whose = b.image.user, "the image's user "
	}
	if text == "" {
		text = "root"
	}
	user, group, found := strings.Cut(text, ":")
	if !found {
		group = "root"
	}
	uid, err := userNumber(user)
	gid, other := userNumber(group)
	if err != nil || other != nil {
		b.refuse(whose + strconv.Quote(text) + " is not a number, and the driver cannot look names up in the image: set user to one, as \"1000\" or \"1000:1000\"")
	}
	return object{"uid": uid, "gid": gid}
}

// userNumber is the number of a user or a group.
func userNumber(name string) (int64, error) {
	if name == "root" {
		return 0, nil
	}
	n, err := strconv.ParseUint(name, 10, 31)
	return int64(n), err
}

// everyCapability are all that the kernel has.
var everyCapability = strings.Fields(`chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable net_bind_service
	net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct sys_admin sys_boot sys_nice sys_resource
	sys_time sys_tty_config mknod lease audit_write audit_control setfcap mac_override mac_admin syslog wake_alarm block_suspend audit_read perfmon
	bpf checkpoint_restore`)

// defaultCapabilities are what a container has when nobody says otherwise.
var defaultCapabilities = []string{
	"audit_write", "chown", "dac_override", "fowner", "fsetid", "kill", "mknod", "net_bind_service", "net_raw", "setfcap", "setgid", "setpcap",
	"setuid", "sys_chroot",
}

// capability is a capability's name in small letters, without its prefix.
func capability(name string) string { return strings.TrimPrefix(strings.ToLower(name), "cap_") }

// capabilities are what the container may do, which the operator bounds.
func (b *builder) capabilities() []string {
	var drop []string
	for _, name := range b.c.capDrop {
		drop = append(drop, capability(name))
	}
	have := slices.Clone(defaultCapabilities)
	if b.c.privileged {
		have = slices.Clone(everyCapability)
		if !b.d.settings.allowPrivileged {
			b.refuse("privileged: the plugin's allow_privileged is not set")
		}
	}
	have = slices.DeleteFunc(have, func(name string) bool {
		return !b.c.privileged && !b.permits(name) || slices.Contains(drop, name) || slices.Contains(drop, "all")
	})
	for _, name := range b.c.capAdd {
		switch name = capability(name); {
		case !b.permits(name):
			b.refuse("cap_add: the plugin's allow_caps does not have " + name)
		case name == "all":
			return named(everyCapability)
		case !slices.Contains(everyCapability, name):
			b.refuse("cap_add: there is no capability " + name)
		case !slices.Contains(have, name):
			have = append(have, name)
		}
	}
	return named(have)
}

// permits reports whether the operator lets tasks have a capability.
func (b *builder) permits(name string) bool {
	return slices.ContainsFunc(b.d.settings.allowCaps, func(a string) bool { return capability(a) == name || a == "all" })
}

// named are capabilities as the specification names them.
func named(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = "CAP_" + strings.ToUpper(name)
	}
	return out
}

// resources are limits of memory, processor and processes, and which devices there are.
func (b *builder) resources() object {
	r := b.t.Resources
	limit := max(r.MemoryBytes, r.MemoryMaxBytes)
	memory := object{"limit": int64(limit), "swap": int64(limit)} // no more than that: no swap
	if limit > r.MemoryBytes {
		memory["reservation"] = int64(r.MemoryBytes)
	}
	cpu := object{"shares": int64(max(r.CpuMhz, 2))}
	if len(r.Cores) > 0 {
		cores := make([]string, len(r.Cores))
		for i, n := range r.Cores {
			cores[i] = strconv.Itoa(int(n))
		}
		cpu["cpus"] = strings.Join(cores, ",")
	}
	all := object{"memory": memory, "cpu": cpu, "devices": []object{{"allow": b.c.privileged, "access": "rwm"}}}
	pids, most := b.c.pidsLimit, b.d.settings.pidsLimit
	switch {
	case most > 0 && pids > most:
		b.refuse("pids_limit: the plugin's is " + strconv.FormatInt(most, 10))
	case pids == 0:
		pids = most
	}
	if pids > 0 {
		all["pids"] = object{"limit": pids}
	}
	if len(b.t.Devices) > 0 {
		b.refuse("device: containerd is told a device by its numbers, which a plugin cannot look up: use the docker driver")
	}
	return all
}

// namespaces are those that the container does not share with the machine.
func (b *builder) namespaces() []object {
	own := []object{{"type": "mount"}, {"type": "uts"}}
	for kind, mode := range map[string]string{"pid": b.c.pidMode, "ipc": b.c.ipcMode} {
		switch {
		case mode == "":
			own = append(own, object{"type": kind})
		case !b.d.settings.allowPrivileged:
			b.refuse(kind + "_mode: the plugin's allow_privileged is not set")
		}
	}
	network := b.t.Network
	switch {
	case b.c.hostNetwork && network != nil:
		b.refuse("host_network: the group has a network of mode " + network.Mode)
	case network != nil:
		own = append(own, object{"type": "network", "path": network.Namespace})
	case !b.c.hostNetwork:
		own = append(own, object{"type": "network"})
	}
	slices.SortFunc(own, func(a, b object) int { return strings.Compare(a["type"].(string), b["type"].(string)) })
	return own
}

// hostname is the container's own, also in the machine's network.
func (b *builder) hostname() string {
	if b.c.hostname != "" {
		return b.c.hostname
	}
	return strings.ReplaceAll(b.t.Name, "/", "-")
}
