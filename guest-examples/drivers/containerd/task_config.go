package main

import "github.com/wasmnode/wasmnode/sdk/go/config"

// taskConfig is what a task's config block holds.
type taskConfig struct {
	image                string
	command              string
	args, entrypoint     []string
	cwd, hostname        string
	privileged, readonly bool
	capAdd, capDrop      []string
	hostNetwork, hostDNS bool
	pidMode, ipcMode     string
	pidsLimit, shmSize   int64
	sysctl               map[string]string
	extraHosts           []string
	mounts               []mountConfig
	tty                  bool
}

// mountConfig is a block of that name.
type mountConfig struct {
	kind, source, target string
	options              []string
}

var tasks = config.For((*taskConfig).fields)

func (c *taskConfig) fields(f *config.Fields) {
	f.String(&c.image, "image", "The image, such as \"redis:7\".").Required().NotEmpty()
	f.String(&c.command, "command", "The command, instead of the image's.")
	f.Strings(&c.args, "args", "The arguments after it.")
	f.Strings(&c.entrypoint, "entrypoint", "The entrypoint, instead of the image's.")
	f.String(&c.cwd, "cwd", "The working directory, instead of the image's.").Pattern("^/")
	f.String(&c.hostname, "hostname", "The host name in the container; the task's name by default.")
	f.Bool(&c.privileged, "privileged", "Whether the container has all rights of the machine's root, which the operator has to allow.").Default(false)
	f.Bool(&c.readonly, "readonly_rootfs", "Whether the image's files cannot be changed.").Default(false)
	f.Strings(&c.capAdd, "cap_add", "Capabilities to have, which the operator has to allow.")
	f.Strings(&c.capDrop, "cap_drop", "Capabilities not to have; \"all\": none but those that are added.")
	f.Bool(&c.hostNetwork, "host_network", "Whether the container is in the machine's network.").Default(false)
	f.Bool(&c.hostDNS, "host_dns", "Whether the container has the machine's /etc/resolv.conf; without it, the image's.").Default(true)
	f.String(&c.pidMode, "pid_mode", "\"host\": the container sees the machine's processes. It needs allow_privileged.").OneOf("", "host").Default("")
	f.String(&c.ipcMode, "ipc_mode", "\"host\": the container shares the machine's memory and queues. It needs allow_privileged.").OneOf("", "host").Default("")
	f.Int(&c.pidsLimit, "pids_limit", "How many processes the container may have.").AtLeast(0).Default(0)
	f.Int(&c.shmSize, "shm_size", "The size of /dev/shm in bytes; 64 MiB by default.").AtLeast(0).Default(0)
	f.Map(&c.sysctl, "sysctl", "Parameters of the kernel that are the container's own.")
	f.Strings(&c.extraHosts, "extra_hosts", "Lines of /etc/hosts, each NAME:ADDRESS.")
	f.Bool(&c.tty, "tty", "Whether the container has a terminal: its output is then one stream.").Default(false)
	config.Blocks(f, &c.mounts, "mounts", "What else is mounted.", func(m *mountConfig, f *config.Fields) {
		f.String(&m.kind, "type", "\"bind\" or \"tmpfs\".").OneOf("bind", "tmpfs").Default("bind")
		f.String(&m.source, "source", "The path on the machine; one that is relative is the task's.").Default("")
		f.String(&m.target, "target", "The path in the container.").Required().Pattern("^/")
		f.Strings(&m.options, "options", "Options, as those of fstab: [\"rbind\", \"ro\"] by default.")
	})
}
