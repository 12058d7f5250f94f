package main

import (
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

// Labels of a container: whose it is, of which node, and whether its output can be read from the engine.
const (
	labelAlloc  = "com.hashicorp.nomad.alloc_id"
	labelTask   = "wasmnode.task_id"
	labelSilent = "wasmnode.no_logs"
	labelOwner  = "wasmnode.owner"
)

// containerName is Nomad's.
func containerName(t *driver.TaskConfig) string {
	return strings.ReplaceAll(t.Name, "/", "_") + "-" + t.AllocId
}

// specification is a container to create.
type specification struct {
	image     string
	labels    map[string]string
	container object // the top of the request
	host      object // its HostConfig
	network   object // its NetworkingConfig
	ports     map[string]uint32
	advertise bool // its IPv6 address
	// attempts are how often what has its name already is removed.
	attempts int64
	// local are paths of the task's directories that it mounts, and that no link may lead away.
	local []string
}

// encoded is the request's body.
func (s *specification) encoded() []byte {
	o := object{slices.Clone(s.container.b)}
	o.text("Image", s.image)
	o.texted("Labels", s.labels)
	o.object("HostConfig", &s.host)
	o.object("NetworkingConfig", &s.network)
	return o.encoded()
}

// builder makes a specification of a task. The first thing that is refused is its error.
type builder struct {
	*specification
	d   *docker
	t   *driver.TaskConfig
	c   config.Value
	err error
}

func (b *builder) refuse(text string) {
	if b.err == nil {
		b.err = abi.NewError(abi.InvalidArgument, text)
	}
}

// specify says what container a task is; it asks nobody.
func (d *docker) specify(t *driver.TaskConfig, c config.Value, group membership) (*specification, error) {
	b := &builder{specification: &specification{}, d: d, t: t, c: c}
	b.command()
	b.labels()
	b.limits()
	b.privileges()
	b.namespaces()
	b.files(group)
	b.devices()
	b.networking(group)
	b.logging()
	b.attempts = c.Get("container_exists_attempts").Int()
	return b.specification, b.err
}

// command is what runs in the container, and as whom.
func (b *builder) command() {
	o, c := &b.container, b.c
	env := make([]string, 0, len(b.t.Env))
	for _, name := range slices.Sorted(maps.Keys(b.t.Env)) {
		env = append(env, name+"="+b.t.Env[name])
	}
	o.texts("Env", env)
	o.text("User", b.t.User)
	o.text("WorkingDir", c.Get("work_dir").Text())
	if e := c.Get("entrypoint"); e.Kind() == config.String {
		o.texts("Entrypoint", []string{e.Text()})
	} else {
		o.texts("Entrypoint", e.Texts())
	}
	var command []string
	if text := c.Get("command").Text(); text != "" {
		command = append(command, text)
	}
	o.texts("Cmd", append(command, c.Get("args").Texts()...))
	o.truth("Tty", c.Get("tty").Bool())
	o.truth("OpenStdin", c.Get("interactive").Bool())
	if c.Get("healthchecks", "disable").Bool() {
		var health object
		health.texts("Test", []string{"NONE"})
		o.object("Healthcheck", &health)
	}
	b.host.truth("Init", c.Get("init").Bool())
}

// extraLabels are those that the plugin's extra_labels name.
func extraLabels(t *driver.TaskConfig) map[string]string {
	return map[string]string{
		"job_name": t.JobName, "job_id": t.JobId, "parent_job_id": t.ParentJobId, "task_group_name": t.TaskGroupName, "task_name": t.Name,
		"namespace": t.Namespace, "node_name": t.NodeName, "node_id": t.NodeId,
	}
}

func (b *builder) labels() {
	labels := b.c.Get("labels").Map()
	known := extraLabels(b.t)
	for _, pattern := range b.d.settings.Get("extra_labels").Texts() {
		for name, value := range known {
			if matches([]string{pattern}, name) {
				labels["com.hashicorp.nomad."+name] = value
			}
		}
	}
	labels[labelAlloc], labels[labelTask] = b.t.AllocId, b.t.Id
	if b.silent() {
		labels[labelSilent] = "true"
	}
	b.specification.labels = labels
}

// limits are of memory, processor and processes.
func (b *builder) limits() {
	r, h, c := b.t.Resources, &b.host, b.c
	limit := max(r.MemoryBytes, r.MemoryMaxBytes)
	if hard := uint64(c.Get("memory_hard_limit").Int()) << 20; hard > 0 {
		if hard < r.MemoryBytes {
			b.refuse("task memory requirements exceed driver hard limit of " + strconv.FormatUint(hard>>20, 10) + " MB")
		}
		limit = hard
	}
	h.number("Memory", int64(limit))
	h.number("MemorySwap", int64(limit)) // no more than that: no swap
	if limit > r.MemoryBytes {
		h.number("MemoryReservation", int64(r.MemoryBytes))
	}
	h.number("CpuShares", int64(r.CpuMhz))
	if c.Get("cpu_hard_limit").Bool() {
		b.quota(c.Get("cpu_cfs_period").Int())
	}
	cores := make([]string, len(r.Cores))
	for i, n := range r.Cores {
		cores[i] = strconv.Itoa(int(n))
	}
	if cpus := c.Get("cpuset_cpus").Text(); cpus != "" && len(cores) == 0 {
		cores = []string{cpus}
	}
	h.text("CpusetCpus", strings.Join(cores, ","))
	pids, most := c.Get("pids_limit").Int(), b.d.settings.Get("pids_limit").Int()
	if most > 0 && pids > most {
		b.refuse("pids_limit cannot be greater than the plugin's, which is " + strconv.FormatInt(most, 10))
	}
	if pids == 0 {
		pids = most
	}
	h.number("PidsLimit", pids)
	h.number("OomScoreAdj", c.Get("oom_score_adj").Int())
	h.number("ShmSize", c.Get("shm_size").Int())
	b.ulimits()
}

// quota bounds the processor time to the task's cpu, in each period of that many microseconds.
func (b *builder) quota(period int64) {
	thousandths := b.t.Resources.CpuThousandths
	if thousandths == 0 {
		b.refuse("cpu_hard_limit: it is not known how much processor time a MHz is on this node")
	}
	if period == 0 {
		period = 100_000 // the kernel's
	}
	b.host.number("CpuPeriod", period)
	b.host.number("CpuQuota", int64(thousandths)*period/1000)
}

// ulimits are written "SOFT:HARD" or as one number for both.
func (b *builder) ulimits() {
	var items [][]byte
	for name, text := range b.c.Get("ulimit").Map() {
		soft, hard, two := strings.Cut(text, ":")
		if !two {
			hard = soft
		}
		s := b.limit("soft", name, text, soft, hard)
		h := b.limit("hard", name, text, hard, hard)
		var o object
		o.text("Name", name)
		o.raw("Soft", strconv.AppendInt(nil, s, 10))
		o.raw("Hard", strconv.AppendInt(nil, h, 10))
		items = append(items, o.encoded())
	}
	b.host.list("Ulimits", items)
}

// limit reads one of a ulimit's two numbers.
func (b *builder) limit(which, name, text, number, hard string) int64 {
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil && !strings.Contains(text, ":") {
		text += ":" + hard
	}
	if err != nil {
		b.refuse("failed to parse ulimit configuration: Malformed " + which + " ulimit " + name + ": " + text)
	}
	return n
}

// dockersCapabilities are what a container has when nobody says otherwise.
var dockersCapabilities = []string{
	"audit_write", "chown", "dac_override", "fowner", "fsetid", "kill", "mknod", "net_bind_service", "net_raw", "setfcap", "setgid",
	"setpcap", "setuid", "sys_chroot",
}

// capability is a capability's name in small letters, without its prefix.
func capability(name string) string { return strings.TrimPrefix(strings.ToLower(name), "cap_") }

// privileges are what a container may do, which the operator bounds.
func (b *builder) privileges() {
	h, c, settings := &b.host, b.c, b.d.settings
	if c.Get("privileged").Bool() {
		if !settings.Get("allow_privileged").Bool() {
			b.refuse("Docker privileged mode is disabled on this Nomad agent")
		}
		h.truth("Privileged", true)
	}
	var allowed, add, drop []string
	for _, name := range settings.Get("allow_caps").Texts() {
		allowed = append(allowed, capability(name))
	}
	all := slices.Contains(allowed, "all")
	for _, name := range c.Get("cap_add").Texts() {
		name = capability(name)
		if !all && !slices.Contains(allowed, name) {
			b.refuse("driver does not allow the following capabilities: " + name)
		}
		add = append(add, strings.ToUpper(name))
	}
	for _, name := range c.Get("cap_drop").Texts() {
		drop = append(drop, strings.ToUpper(capability(name)))
	}
	for _, name := range dockersCapabilities {
		if upper := strings.ToUpper(name); !all && !slices.Contains(allowed, name) && !slices.Contains(drop, upper) && !slices.Contains(drop, "ALL") {
			drop = append(drop, upper)
		}
	}
	h.texts("CapAdd", add)
	h.texts("CapDrop", drop)
	for _, option := range c.Get("security_opt").Texts() {
		if !matches(settings.Get("allow_security_opts").Texts(), option) {
			b.refuse("driver does not allow the security_opt " + strconv.Quote(option) + ": the plugin's allow_security_opts does not have it")
		}
	}
	h.texts("SecurityOpt", c.Get("security_opt").Texts())
	h.texts("GroupAdd", c.Get("group_add").Texts())
	h.texted("Sysctls", c.Get("sysctl").Map())
	h.texted("StorageOpt", c.Get("storage_opt").Map())
	h.truth("ReadonlyRootfs", c.Get("readonly_rootfs").Bool())
	b.runtime()
}

// matches reports whether one of an operator's patterns, a '*' at the end of which is any text,
// has a text.
func matches(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, wild := strings.CutSuffix(p, "*")
		return p == text || wild && strings.HasPrefix(text, prefix)
	})
}

func (b *builder) runtime() {
	name := b.c.Get("runtime").Text()
	if name != "" && !slices.Contains(b.d.settings.Get("allow_runtimes").Texts(), name) {
		b.refuse("requested runtime " + strconv.Quote(name) + " is not allowed")
	}
	b.host.text("Runtime", name)
}

// namespaces are those that the container shares with others, where the operator allows it.
func (b *builder) namespaces() {
	for field, name := range map[string]string{"pid": "PidMode", "ipc": "IpcMode", "uts": "UTSMode", "userns": "UsernsMode"} {
		mode := b.c.Get(field + "_mode").Text()
		if mode != "" && !slices.Contains(b.d.settings.Get("allowed_modes", field).Texts(), mode) {
			b.refuse("cannot apply " + strconv.Quote(field+"_mode") + " configuration")
		}
		b.host.text(name, mode)
	}
	b.host.text("CgroupnsMode", b.c.Get("cgroupns").Text())
	if isolation := b.c.Get("isolation").Text(); isolation != "" && isolation != "default" {
		b.refuse("Failed to create container configuration, cannot use isolation mode " + strconv.Quote(isolation) + " on linux")
	}
}

// devices are device nodes of the machine's: those that devices of the job are, and others.
func (b *builder) devices() {
	var items [][]byte
	add := func(host, inside, permissions string) {
		var o object
		o.text("PathOnHost", host)
		o.text("PathInContainer", inside)
		o.text("CgroupPermissions", permissions)
		items = append(items, o.encoded())
	}
	for _, v := range b.c.Get("devices").Items() {
		host, inside, permissions := v.Get("host_path").Text(), v.Get("container_path").Text(), v.Get("cgroup_permissions").Text()
		if clean := path.Clean(host); clean != host || !matches(b.d.settings.Get("allow_devices").Texts(), host) {
			b.refuse("driver does not allow the device " + strconv.Quote(host) + ": the plugin's allow_devices does not have it")
		}
		if inside == "" {
			inside = host
		}
		if permissions == "" {
			permissions = "rwm"
		}
		add(host, inside, permissions)
	}
	for _, n := range b.t.Devices {
		add(n.HostPath, n.TaskPath, n.Permissions)
	}
	b.host.list("Devices", items)
}

// readable are the engine's log drivers that it can be asked for the output of.
var readable = []string{"json-file", "local", "journald", "k8s-file"}

// logDriver is the task's, or else the plugin's.
func (b *builder) logDriver() (string, map[string]string) {
	for _, v := range []config.Value{b.c.Get("logging"), b.d.settings.Get("logging")} {
		name := v.Get("type").Text()
		if name == "" {
			name = v.Get("driver").Text()
		}
		if name != "" {
			return name, v.Get("config").Map()
		}
	}
	return "json-file", map[string]string{"max-file": "2", "max-size": "10m"}
}

// silent reports whether the output is not to be read from the engine.
func (b *builder) silent() bool {
	name, _ := b.logDriver()
	return !slices.Contains(readable, name) || b.d.settings.Get("disable_log_collection").Bool() || b.t.GetLog().GetDisabled()
}

func (b *builder) logging() {
	name, options := b.logDriver()
	var o object
	o.text("Type", name)
	o.texted("Config", options)
	b.host.object("LogConfig", &o)
}

// imagePath is an image's name in a path of the API.
func imagePath(image string) string {
	parts := strings.Split(image, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/images/" + strings.Join(parts, "/")
}
