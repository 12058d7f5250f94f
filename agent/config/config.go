package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/node"
	"github.com/wasmnode/wasmnode/runners/artifact"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/runners/template"
)

// Config is the configuration of an agent. [Default] makes a complete one. The tags are the
// keys that files set, for [Changes].
type Config struct {
	Name       string `key:"name"` // of the node; the host's name by default
	Region     string `key:"region"`
	Datacenter string `key:"datacenter"`
	DataDir    string `key:"data_dir"`   // all that has to survive; absolute
	PluginDir  string `key:"plugin_dir"` // where .wasm files are dropped; absolute
	BindAddr   string `key:"bind_addr"`  // of the HTTP API: addresses with spaces between, or unix:// and a socket's path
	HTTPPort   int    `key:"ports.http"` // 0: any free one
	LogLevel   string `key:"log_level"`  // trace, debug, info, warn or error
	LogJSON    bool   `key:"log_json"`
	// EventLogLevel is the level at which events of tasks and allocations are logged: one of those
	// of LogLevel, or "off".
	EventLogLevel string `key:"event_log_level"`
	// EventSinks are told what happens, by name.
	EventSinks map[string]EventSink `key:"event_sink"`
	// EnableDebug shows profiles of the agent to whoever may read, and has plugins recorded, where
	// there are no ACLs.
	EnableDebug bool `key:"enable_debug"`
	// RequirePinned refuses plugins whose digest is not in the configuration.
	RequirePinned bool `key:"require_pinned"`
	// RequireLock refuses all plugins while their directory has no lock file.
	RequireLock bool `key:"require_lock"`
	// TrustedKeys are the files of public keys with one of which every plugin has to be signed;
	// none: plugins need no signature.
	TrustedKeys []string `key:"trusted_keys"`
	// RequireSigned refuses a configuration that trusts no key.
	RequireSigned bool              `key:"require_signed"`
	Access        Access            `key:"-"`
	Client        Client            `key:"client"`
	Server        Server            `key:"server"`
	Telemetry     Telemetry         `key:"telemetry"`
	Tracing       Tracing           `key:"tracing"`
	PluginLimits  PluginLimits      `key:"plugin_limits"`
	Plugins       map[string]Plugin `key:"plugin"`
	// Warnings are lines that [Config.Load] has to say of the files: they are no setting.
	Warnings []string `key:"-"`
}

// StopStandaloneJobs has jobs stopped when the agent joins servers.
const StopStandaloneJobs = "stop"

// Client is how the node runs allocations.
type Client struct {
	// Servers are those of a cluster that the node joins, "HOST:PORT" or a host; none: the agent
	// schedules for its own machine.
	Servers []string `key:"servers"`
	// StandaloneJobs is what becomes of the jobs that the agent has scheduled itself when it joins
	// servers: [StopStandaloneJobs], or nothing, with which it does not join as long as some run.
	StandaloneJobs string            `key:"standalone_jobs"`
	NodeClass      string            `key:"node_class"`
	NodePool       string            `key:"node_pool"`
	Meta           map[string]string `key:"meta"`
	Reserved       Resources         `key:"reserved"`
	// ReservedPorts and ReservedCores are given to no task: lists such as "22,8000-8100".
	ReservedPorts string `key:"reserved.reserved_ports"`
	ReservedCores string `key:"reserved.cores"`
	// HostNetworks are the networks that ports of jobs may name, by name.
	HostNetworks map[string]HostNetwork `key:"host_network"`
	// HostVolumes are the directories that jobs may mount, by the name they are asked for with.
	HostVolumes map[string]HostVolume `key:"host_volume"`
	// HostVolumesDir is what dynamic host volumes are below, and HostVolumePluginDir has the
	// programs that make them; empty: host_volumes and host_volume_plugins in the data directory.
	HostVolumesDir      string `key:"host_volumes_dir"`
	HostVolumePluginDir string `key:"host_volume_plugin_dir"`
	// CNIPath are the directories that plugins of CNI are looked for in, separated by colons,
	// and CNIConfigDir has the networks that jobs name as cni/NAME.
	CNIPath      string `key:"cni_path"`
	CNIConfigDir string `key:"cni_config_dir"`
	// BridgeName is the interface of allocations whose network is a bridge, and BridgeSubnet
	// where their addresses are from.
	BridgeName   string `key:"bridge_network_name"`
	BridgeSubnet string `key:"bridge_network_subnet"`
	// ChrootEnv are the machine's files and directories that isolated tasks see, read-only,
	// and where. Absolute and clean; what does not exist is left out.
	ChrootEnv map[string]string `key:"chroot_env"`
	// EnvDenylist are variables of the agent's environment that tasks do not get, beside
	// those that none ever does.
	EnvDenylist []string `key:"env_denylist"`
	// MaxKillTimeout caps the kill_timeout of tasks.
	MaxKillTimeout time.Duration `key:"max_kill_timeout"`
	Artifact       Artifact      `key:"artifact"`
	Templates      Templates     `key:"template"`
	// DisableRemoteExec refuses to run commands in tasks.
	DisableRemoteExec bool `key:"disable_remote_exec"`
	// GCMaxAllocs is how many allocations are kept, ended ones included, before the
	// oldest ended ones are destroyed.
	GCMaxAllocs int `key:"gc_max_allocs"`
	// GCDiskUsage and GCInodeUsage are how full, in percent, the allocations' file
	// system may be before ended ones are destroyed.
	GCDiskUsage  float64 `key:"gc_disk_usage_threshold"`
	GCInodeUsage float64 `key:"gc_inode_usage_threshold"`
	// GCInterval is how often the disk is looked at.
	GCInterval time.Duration `key:"gc_interval"`
	// GCParallel is how many are destroyed at once.
	GCParallel     int      `key:"gc_parallel_destroys"`
	AllowedDrivers []string `key:"drivers.allow"` // empty: all
	BlockedDrivers []string `key:"drivers.block"` // even when they are allowed
}

// Templates is what is said of the templates of all tasks.
type Templates struct {
	// Wait is of templates without one. A Max of 0 is four times Min.
	Wait Wait `key:"wait"`
	// WaitBounds are the least min and the greatest max of the others'; 0: any.
	WaitBounds Wait `key:"wait_bounds"`
	// Denied are functions that no template can call.
	Denied []string `key:"function_denylist"`
}

// Wait is how long a template waits for quiet.
type Wait struct {
	Min time.Duration `key:"min"`
	Max time.Duration `key:"max"`
}

// Artifact bounds each artifact that a task fetches.
type Artifact struct {
	MaxSize  int           `key:"max_size"` // MiB, of what is downloaded and again of what is written
	MaxFiles int           `key:"max_files"`
	Timeout  time.Duration `key:"timeout"`
}

// Resources are kept back for the host. CPU is in MHz, memory and disk in MiB.
type Resources struct {
	CPU    int `key:"cpu"`
	Memory int `key:"memory"`
	Disk   int `key:"disk"`
}

// PluginLimits bound what plugins use of the machine; 0 is what [host.DefaultLimits] has,
// never no bound.
type PluginLimits struct {
	Memory    int `key:"memory"`     // MiB of memory of all instances of one plugin
	AllMemory int `key:"memory_all"` // MiB of memory of all plugins together
	CPU       int `key:"cpu"`        // percent of one processor that one plugin computes over a minute
}

func (l PluginLimits) validate() (errs []error) {
	for _, v := range []struct {
		key   string
		value int
	}{{"memory", l.Memory}, {"memory_all", l.AllMemory}, {"cpu", l.CPU}} {
		if v.value < 0 {
			errs = append(errs, fmt.Errorf("plugin_limits.%s: %d is negative; 0 is the default", v.key, v.value))
		}
	}
	if l.AllMemory > 0 && l.Memory > l.AllMemory {
		errs = append(errs, fmt.Errorf("plugin_limits.memory: %d MiB is more than memory_all, %d MiB", l.Memory, l.AllMemory))
	}
	return errs
}

// Plugin is what an operator decided about the plugin of one name. It is no one's who gives
// itself that name, but the file's that is meant.
type Plugin struct {
	// File is the name of that file in the plugin directory; empty: NAME.wasm.
	File string
	// SHA256 is the digest of the only content that may go by this name, whatever its file is
	// called; empty: any content of the file.
	SHA256 string
	// Config is the plugin's own configuration, not yet checked.
	Config map[string]any
	// Grant is what it may do beyond what every plugin may.
	Grant host.Grants
}

// Default returns the configuration that is in force where no file overrides it.
func Default() Config {
	name, err := os.Hostname()
	if err != nil {
		name = "localhost"
	}
	fetch, gc := artifact.DefaultLimits(), node.DefaultGC()
	return Config{
		Name:       name,
		Region:     "global",
		Datacenter: "dc1",
		DataDir:    "/var/lib/wasmnode",
		PluginDir:  "/var/lib/wasmnode/plugins",
		BindAddr:   "127.0.0.1", // by default the API needs no token
		HTTPPort:   4646,        // Nomad's, so that its command line finds us
		LogLevel:   "info",

		EventLogLevel: "info",
		TrustedKeys:   []string{},
		Access: Access{
			Page: true, TokenLeastTTL: time.Minute, TokenMostTTL: 24 * time.Hour,
			Limits: Limits{Reads: 256, Bodies: 64, Streams: 1024, Connections: 2048},
		},
		Client: Client{
			NodePool:       "default",
			CNIPath:        "/opt/cni/bin:/usr/lib/cni:/usr/libexec/cni", // Nomad's, and where packages have them
			CNIConfigDir:   "/opt/cni/config",
			BridgeName:     "wasmnode",
			BridgeSubnet:   "172.26.80.0/20",
			ChrootEnv:      defaultChroot(),
			EnvDenylist:    []string{},
			Templates:      Templates{Denied: []string{}},
			MaxKillTimeout: task.DefaultMaxKillTimeout,
			Artifact:       Artifact{MaxSize: int(fetch.Bytes >> 20), MaxFiles: int(fetch.Files), Timeout: fetch.Time},
			GCMaxAllocs:    gc.MaxAllocs,
			GCDiskUsage:    gc.DiskPercent,
			GCInodeUsage:   gc.InodePercent,
			GCInterval:     gc.Interval,
			GCParallel:     gc.Parallel,
		},
		Server:       defaultServer(),
		Telemetry:    defaultTelemetry(),
		PluginLimits: PluginLimits{CPU: int(100 * host.DefaultLimits().CPUPerMinute / time.Minute)},
		Plugins:      map[string]Plugin{},
	}
}

// defaultChroot is what programs of the machine need to run, and Nomad's.
func defaultChroot() map[string]string {
	env := map[string]string{}
	for _, path := range []string{
		"/bin", "/etc", "/lib", "/lib32", "/lib64", "/run/resolvconf", "/run/systemd/resolve", "/sbin", "/usr",
	} {
		env[path] = path
	}
	return env
}

var (
	validName   = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]{0,63}$`)
	validDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Validate returns every fault of the configuration, joined.
func (c Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, word := range []struct{ key, value string }{
		{"name", c.Name}, {"region", c.Region}, {"datacenter", c.Datacenter}, {"client.node_pool", c.Client.NodePool},
	} {
		if word.value == "" || strings.ContainsFunc(word.value, unprintable) {
			fault("%s: %q is empty or has spaces or control characters in it", word.key, word.value)
		}
	}
	for _, dir := range []struct{ key, path string }{{"data_dir", c.DataDir}, {"plugin_dir", c.PluginDir}} {
		if !filepath.IsAbs(dir.path) {
			fault("%s: %q is not an absolute path", dir.key, dir.path)
		}
	}
	errs = append(errs, c.validateKeys()...)
	errs = append(errs, c.validateBindAddr()...)
	if c.HTTPPort < 0 || c.HTTPPort > 65535 {
		fault("ports.http: %d is not a port", c.HTTPPort)
	}
	if !slices.Contains([]string{"trace", "debug", "info", "warn", "error"}, strings.ToLower(c.LogLevel)) {
		fault("log_level: %q is not one of trace, debug, info, warn, error", c.LogLevel)
	}
	if !slices.Contains([]string{"trace", "debug", "info", "warn", "error", "off"}, strings.ToLower(c.EventLogLevel)) {
		fault("event_log_level: %q is not one of trace, debug, info, warn, error, off", c.EventLogLevel)
	}
	errs = append(errs, c.sinkFaults()...)
	errs = append(errs, c.Access.validate()...)
	errs = append(errs, c.Client.validate()...)
	errs = append(errs, c.Server.validate()...)
	switch on := c.Server.Enabled; {
	case on != nil && !*on && len(c.Client.Servers) == 0:
		fault("server.enabled: false, and client.servers has none: nobody would say what runs here")
	case on != nil && *on && len(c.Client.Servers) > 0:
		fault("client.servers: with server { enabled = true } the agent is its own server: leave out one of the two")
	}
	errs = append(errs, c.Telemetry.validate()...)
	errs = append(errs, c.Tracing.validate()...)
	errs = append(errs, c.PluginLimits.validate()...)
	files := map[string]string{} // who is meant by each block
	for _, name := range slices.Sorted(maps.Keys(c.Plugins)) {
		p := c.Plugins[name]
		errs = append(errs, p.validate(name)...)
		file := cmp.Or(p.File, name+".wasm")
		if other, twice := files[file]; twice && p.SHA256 == "" && c.Plugins[other].SHA256 == "" {
			fault("plugin %q: file: %q is plugin %q already, and a file is one plugin", name, file, other)
		}
		files[file] = name
	}
	return errors.Join(errs...)
}

// validateKeys returns every fault of what says whose plugins are taken.
func (c Config) validateKeys() (errs []error) {
	for _, path := range c.TrustedKeys {
		if !filepath.IsAbs(path) {
			errs = append(errs, fmt.Errorf("trusted_keys: %q is not an absolute path", path))
		}
	}
	if c.RequireSigned && len(c.TrustedKeys) == 0 {
		errs = append(errs, errors.New("require_signed: trusted_keys names no public key, so that no plugin would be taken"))
	}
	return errs
}

// validate returns every fault of the block.
func (c Client) validate() (errs []error) {
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("client."+format, args...)) }
	for _, count := range []struct {
		key string
		n   int
	}{
		{"artifact.max_size", c.Artifact.MaxSize}, {"artifact.max_files", c.Artifact.MaxFiles},
		{"gc_max_allocs", c.GCMaxAllocs}, {"gc_parallel_destroys", c.GCParallel},
	} {
		if count.n < 1 {
			fault("%s: %d is less than 1", count.key, count.n)
		}
	}
	for _, limit := range []struct {
		key string
		d   time.Duration
	}{
		{"max_kill_timeout", c.MaxKillTimeout}, {"artifact.timeout", c.Artifact.Timeout}, {"gc_interval", c.GCInterval},
	} {
		if limit.d <= 0 {
			fault("%s: %s is not positive", limit.key, limit.d)
		}
	}
	for _, use := range []struct {
		key     string
		percent float64
	}{{"disk", c.GCDiskUsage}, {"inode", c.GCInodeUsage}} {
		if !(use.percent > 0 && use.percent <= 100) {
			fault("gc_%s_usage_threshold: %g is not a percentage above 0", use.key, use.percent)
		}
	}
	for _, source := range slices.Sorted(maps.Keys(c.ChrootEnv)) {
		target := c.ChrootEnv[source]
		if !cleanBelowRoot(source) || !cleanBelowRoot(target) {
			fault("chroot_env: %q = %q: both have to be absolute paths below / without \"..\" or \"//\"", source, target)
		} else if top, _, _ := strings.Cut(target[1:], "/"); slices.Contains(ownInRoot, top) {
			fault("chroot_env: %q = %q: a task has a /%s of its own", source, target, top)
		}
	}
	if j := c.StandaloneJobs; j != "" && j != StopStandaloneJobs {
		fault("standalone_jobs: %q is not %q", j, StopStandaloneJobs)
	}
	for _, s := range c.Servers {
		if err := serverFault(s); err != nil {
			fault("servers: %w", err)
		}
	}
	for _, wait := range []struct {
		key string
		Wait
	}{{"wait", c.Templates.Wait}, {"wait_bounds", c.Templates.WaitBounds}} {
		if err := template.Wait(wait.Wait).Fault(); err != nil {
			fault("template.%s: %w", wait.key, err)
		}
	}
	if r := c.Reserved; r.CPU < 0 || r.Memory < 0 || r.Disk < 0 {
		fault("reserved: negative")
	}
	for _, err := range slices.Concat(c.networkFaults(), c.volumeFaults()) {
		fault("%w", err)
	}
	return errs
}

// ownInRoot is what isolated tasks have in their roots that is not the machine's.
var ownInRoot = []string{"alloc", "dev", "local", "proc", "secrets", "sys", "tmp"}

func cleanBelowRoot(path string) bool {
	return filepath.IsAbs(path) && filepath.Clean(path) == path && path != "/"
}

// validate returns every fault of the block of that name.
func (p Plugin) validate(name string) (errs []error) {
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("plugin %q: "+format, append([]any{name}, args...)...))
	}
	if !validName.MatchString(name) {
		fault("a plugin's name is a letter, then letters, digits, '_' or '-', at most 64 in all")
	}
	if f := p.File; f != "" && (filepath.Base(f) != f || !strings.HasSuffix(f, ".wasm") || strings.HasPrefix(f, ".")) {
		fault("file: %q is not the name of a file in the plugin directory that ends in .wasm", f)
	}
	if p.SHA256 != "" && !validDigest.MatchString(p.SHA256) {
		fault("sha256: %q is not a SHA-256 in lower-case hexadecimal", p.SHA256)
	}
	for _, err := range p.Grant.Faults() {
		fault("%w", err)
	}
	return errs
}

// unprintable reports whether a character would garble a listing.
func unprintable(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }
