package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/task"
	"github.com/wasmnode/wasmnode/sdk/go/taskpath"
)

// mount is one of a specification's.
func mount(kind, source, target string, options ...string) object {
	return object{"type": kind, "source": source, "destination": target, "options": options}
}

// mounts are the kernel's file systems, the task's directories, the job's volumes and what the
// configuration mounts.
func (b *builder) mounts() []object {
	shm, readonly := b.c.shmSize, "ro"
	if shm == 0 {
		shm = 64 << 20
	}
	if b.c.privileged {
		readonly = "rw"
	}
	sysfs := mount("sysfs", "sysfs", "/sys", "nosuid", "noexec", "nodev", readonly)
	if b.c.hostNetwork && !b.c.privileged { // it is of the network's namespace, which is not the container's
		sysfs = mount("bind", "/sys", "/sys", "rbind", "nosuid", "noexec", "nodev", "ro")
	}
	own := []object{
		mount("proc", "proc", "/proc", "nosuid", "noexec", "nodev"),
		mount("tmpfs", "tmpfs", "/dev", "nosuid", "strictatime", "mode=755", "size=65536k"),
		mount("devpts", "devpts", "/dev/pts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"),
		mount("tmpfs", "shm", "/dev/shm", "nosuid", "noexec", "nodev", "mode=1777", "size="+strconv.FormatInt(shm, 10)),
		mount("mqueue", "mqueue", "/dev/mqueue", "nosuid", "noexec", "nodev"),
		sysfs,
		mount("cgroup", "cgroup", "/sys/fs/cgroup", "nosuid", "noexec", "nodev", "relatime", readonly),
	}
	d := b.t.Directories
	own = append(own, bound(d.Shared, "/alloc"), bound(d.Local, "/local"), bound(d.Secrets, "/secrets"), bound(path.Join(d.Task, hostsName), "/etc/hosts"))
	const resolver = "/etc/resolv.conf"
	theirs := slices.ContainsFunc(b.t.Mounts, func(m *driver.Mount) bool { return m.TaskPath == resolver })
	if b.c.hostDNS && !theirs {
		own = append(own, bound(resolver, resolver, "ro"))
	}
	for _, m := range b.t.Mounts {
		if m.ReadOnly {
			own = append(own, bound(m.HostPath, m.TaskPath, "ro"))
		} else {
			own = append(own, bound(m.HostPath, m.TaskPath))
		}
	}
	for _, m := range b.c.mounts {
		own = append(own, b.mounted(m))
	}
	return own
}

// bound is a path of the machine in a container.
func bound(host, inside string, options ...string) object {
	return mount("bind", host, inside, append([]string{"rbind", "rprivate"}, options...)...)
}

// Options that a mount may have; those that let mounts of the container's out to the machine
// need volumes to be enabled.
var (
	plainOptions  = strings.Fields("bind rbind ro rw nosuid suid nodev noexec exec relatime noatime nodiratime strictatime sync private rprivate slave rslave")
	sharedOptions = strings.Fields("dev shared rshared")
)

// mounted is one that the configuration asks for.
func (b *builder) mounted(m mountConfig) object {
	for _, o := range m.options {
		name, _, valued := strings.Cut(o, "=")
		switch {
		case slices.Contains(plainOptions, o), m.kind == "tmpfs" && valued && slices.Contains([]string{"size", "mode", "uid", "gid", "nr_inodes"}, name):
		case slices.Contains(sharedOptions, o):
			b.needVolumes("have the mount option " + o)
		default:
			b.refuse("mounts: there is no option " + strconv.Quote(o))
		}
	}
	if m.kind == "tmpfs" {
		if m.source != "" && m.source != "tmpfs" {
			b.refuse("mounts: a mount of type tmpfs has no source")
		}
		return mount("tmpfs", "tmpfs", m.target, m.options...)
	}
	if m.source == "" {
		b.refuse("mounts: a mount of type bind needs a source")
	}
	options := m.options
	switch {
	case len(options) == 0:
		options = []string{"rbind", "ro"}
	case !slices.Contains(options, "bind") && !slices.Contains(options, "rbind"):
		options = append([]string{"rbind"}, options...)
	}
	return mount("bind", b.hostPath(m.source), m.target, options...)
}

// needVolumes refuses what only an operator who enabled volumes lets a task have.
func (b *builder) needVolumes(what string) {
	if !b.d.settings.volumes.enabled {
		b.refuse("volumes are not enabled; cannot " + what)
	}
}

// hostPath is a path of the machine: one of the task's directories, or any where the operator
// enabled volumes.
func (b *builder) hostPath(source string) string {
	full := path.Clean(source)
	if !path.IsAbs(full) {
		full = path.Join(b.t.Directories.Task, source)
	}
	switch {
	case !taskpath.Own(b.t.Directories, full):
		b.needVolumes("mount host path: " + strconv.Quote(source))
	case full == path.Clean(b.t.Directories.Task):
		// The shim opens files in it as root, by names that a container could make links of.
		b.needVolumes("mount the task's directory as a whole: mount what is in it")
	case !b.d.settings.volumes.enabled:
		b.local = append(b.local, full)
	}
	return full
}

// checkLinks refuses a path of the task's directories that is reached by a link: the kernel
// would follow it to anywhere.
func checkLinks(ctx context.Context, dirs *driver.TaskDirectories, full string) error {
	what := "mounts: " + strconv.Quote(full)
	switch _, _, err := taskpath.Lstat(ctx, dirs, full); {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return abi.NewError(abi.FailedPrecondition, what+" is not there")
	case errors.Is(err, taskpath.ErrLink):
		return abi.NewError(abi.PermissionDenied, what+" is reached by a link, which may lead anywhere: volumes are not enabled")
	default:
		return abi.NewError(abi.FailedPrecondition, what+": "+err.Error())
	}
}

// hostsName is the file in a task's directory that its container has as /etc/hosts.
const hostsName = "etc_hosts"

// writeHosts makes the container's /etc/hosts.
func (b *builder) writeHosts(ctx context.Context) error {
	lines := []string{"127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"}
	address := "127.0.1.1"
	if b.t.Network != nil && b.t.Network.Ip != "" {
		address = b.t.Network.Ip
	}
	lines = append(lines, address+" "+b.hostname())
	for _, text := range b.c.extraHosts {
		name, address, found := strings.Cut(text, ":")
		if !found || strings.ContainsAny(text, " \t\n") {
			return abi.NewError(abi.InvalidArgument, "extra_hosts: "+strconv.Quote(text)+" is not NAME:ADDRESS")
		}
		lines = append(lines, strings.Trim(address, "[]")+" "+name)
	}
	return os.WriteFile(path.Join(task.Dir(ctx), hostsName), []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}
