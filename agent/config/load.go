package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

// file is the shape of a configuration file. Pointers distinguish what is set from what is
// not.
type file struct {
	Name          *string            `hcl:"name,optional"`
	Region        *string            `hcl:"region,optional"`
	Datacenter    *string            `hcl:"datacenter,optional"`
	DataDir       *string            `hcl:"data_dir,optional"`
	PluginDir     *string            `hcl:"plugin_dir,optional"`
	BindAddr      *string            `hcl:"bind_addr,optional"`
	LogLevel      *string            `hcl:"log_level,optional"`
	LogJSON       *bool              `hcl:"log_json,optional"`
	RequirePinned *bool              `hcl:"require_pinned,optional"`
	RequireLock   *bool              `hcl:"require_lock,optional"`
	TrustedKeys   *[]string          `hcl:"trusted_keys,optional"`
	RequireSigned *bool              `hcl:"require_signed,optional"`
	HTTPHosts     *[]string          `hcl:"http_hosts,optional"`
	SocketGroup   *string            `hcl:"http_socket_group,optional"`
	InsecureAPI   *bool              `hcl:"insecure_api,optional"`
	ACL           *aclBlock          `hcl:"acl,block"`
	UI            *uiBlock           `hcl:"ui,block"`
	TLS           *tlsBlock          `hcl:"tls,block"`
	Limits        *limitsBlock       `hcl:"limits,block"`
	Ports         *portsBlock        `hcl:"ports,block"`
	Addresses     *addressesBlock    `hcl:"addresses,block"`
	EnableDebug   *bool              `hcl:"enable_debug,optional"`
	Client        *clientBlock       `hcl:"client,block"`
	Server        *serverBlock       `hcl:"server,block"`
	Telemetry     *telemetryBlock    `hcl:"telemetry,block"`
	Tracing       *tracingBlock      `hcl:"tracing,block"`
	PluginLimits  *pluginLimitsBlock `hcl:"plugin_limits,block"`
	EventLogLevel *string            `hcl:"event_log_level,optional"`
	EventSinks    []*eventSinkBlock  `hcl:"event_sink,block"`
	Plugins       []*pluginBlock     `hcl:"plugin,block"`
}

type portsBlock struct {
	HTTP *int `hcl:"http,optional"`
}

type addressesBlock struct {
	HTTP *string `hcl:"http,optional"`
}

type clientBlock struct {
	Servers        *[]string          `hcl:"servers,optional"`
	ServerJoin     *serverJoinBlock   `hcl:"server_join,block"`
	StandaloneJobs *string            `hcl:"standalone_jobs,optional"`
	NodeClass      *string            `hcl:"node_class,optional"`
	Options        *hcl.Attribute     `hcl:"options,optional"`
	NodePool       *string            `hcl:"node_pool,optional"`
	Meta           *map[string]string `hcl:"meta,optional"`
	CNIPath        *string            `hcl:"cni_path,optional"`
	CNIConfigDir   *string            `hcl:"cni_config_dir,optional"`
	BridgeName     *string            `hcl:"bridge_network_name,optional"`
	BridgeSubnet   *string            `hcl:"bridge_network_subnet,optional"`
	ChrootEnv      *map[string]string `hcl:"chroot_env,optional"`
	EnvDenylist    *[]string          `hcl:"env_denylist,optional"`
	MaxKillTimeout *hcl.Attribute     `hcl:"max_kill_timeout,optional"`
	DisableExec    *bool              `hcl:"disable_remote_exec,optional"`
	GCMaxAllocs    *int               `hcl:"gc_max_allocs,optional"`
	GCDiskUsage    *float64           `hcl:"gc_disk_usage_threshold,optional"`
	GCInodeUsage   *float64           `hcl:"gc_inode_usage_threshold,optional"`
	GCInterval     *hcl.Attribute     `hcl:"gc_interval,optional"`
	GCParallel     *int               `hcl:"gc_parallel_destroys,optional"`
	Artifact       *artifactBlock     `hcl:"artifact,block"`
	Template       *templateBlock     `hcl:"template,block"`
	Reserved       *reservedBlock     `hcl:"reserved,block"`
	HostNetworks   []hostNetworkBlock `hcl:"host_network,block"`
	HostVolumes    []hostVolumeBlock  `hcl:"host_volume,block"`
	VolumesDir     *string            `hcl:"host_volumes_dir,optional"`
	VolumePlugins  *string            `hcl:"host_volume_plugin_dir,optional"`
	Drivers        *driversBlock      `hcl:"drivers,block"`
}

type serverJoinBlock struct {
	RetryJoin *[]string `hcl:"retry_join,optional"`
}

type artifactBlock struct {
	MaxSize  *int           `hcl:"max_size,optional"`
	MaxFiles *int           `hcl:"max_files,optional"`
	Timeout  *hcl.Attribute `hcl:"timeout,optional"`
}

type templateBlock struct {
	Wait       *waitBlock `hcl:"wait,block"`
	WaitBounds *waitBlock `hcl:"wait_bounds,block"`
	Denied     *[]string  `hcl:"function_denylist,optional"`
	Blocked    *[]string  `hcl:"function_blacklist,optional"` // the same, as it was called before
}

type waitBlock struct {
	Min *hcl.Attribute `hcl:"min,optional"`
	Max *hcl.Attribute `hcl:"max,optional"`
}

type reservedBlock struct {
	CPU    *int `hcl:"cpu,optional"`
	Memory *int `hcl:"memory,optional"`
	Disk   *int `hcl:"disk,optional"`

	Ports *string `hcl:"reserved_ports,optional"`
	Cores *string `hcl:"cores,optional"`
}

type hostNetworkBlock struct {
	Name      string  `hcl:"name,label"`
	CIDR      *string `hcl:"cidr,optional"`
	Interface *string `hcl:"interface,optional"`
	Ports     *string `hcl:"reserved_ports,optional"`
}

type hostVolumeBlock struct {
	Name     string  `hcl:"name,label"`
	Path     *string `hcl:"path,optional"`
	ReadOnly *bool   `hcl:"read_only,optional"`
}

type driversBlock struct {
	Allow *[]string `hcl:"allow,optional"`
	Block *[]string `hcl:"block,optional"`
}

type pluginLimitsBlock struct {
	Memory    *int `hcl:"memory,optional"`
	AllMemory *int `hcl:"memory_all,optional"`
	CPU       *int `hcl:"cpu,optional"`
}

type pluginBlock struct {
	Name   string       `hcl:"name,label"`
	File   *string      `hcl:"file,optional"`
	SHA256 *string      `hcl:"sha256,optional"`
	Config *configBlock `hcl:"config,block"`
	Grant  *grantBlock  `hcl:"grant,block"`
}

type configBlock struct {
	Body hcl.Body `hcl:",remain"`
}

type grantBlock struct {
	FS      *fsBlock      `hcl:"fs,block"`
	Wasm    *wasmBlock    `hcl:"wasm,block"`
	KV      *kvBlock      `hcl:"kv,block"`
	Process *processBlock `hcl:"process,block"`
	Devices *devicesBlock `hcl:"devices,block"`
	Net     *netBlock     `hcl:"net,block"`
	HTTP    *httpBlock    `hcl:"http,block"`
}

type netBlock struct {
	Addresses  *[]string `hcl:"addresses,optional"`
	Sockets    *[]string `hcl:"sockets,optional"`
	Namespaces *[]string `hcl:"namespaces,optional"`
}

type httpBlock struct {
	Endpoints []endpointBlock `hcl:"endpoint,block"`
}

type endpointBlock struct {
	Endpoint string    `hcl:"endpoint,label"`
	Methods  *[]string `hcl:"methods,optional"`
	Paths    *[]string `hcl:"paths,optional"`
}

type processBlock struct {
	Commands     *[]string      `hcl:"commands,optional"`
	Users        *[]string      `hcl:"users,optional"`
	Capabilities *[]string      `hcl:"capabilities,optional"`
	Paths        *[]string      `hcl:"paths,optional"`
	Mounts       *[]string      `hcl:"mounts,optional"`
	Isolation    *hcl.Attribute `hcl:"isolation,optional"`
	HostNetwork  *bool          `hcl:"host_network,optional"`
	Helpers      []helperBlock  `hcl:"helper,block"`
}

type helperBlock struct {
	Command string             `hcl:"command,label"`
	Args    *[]string          `hcl:"args,optional"`
	User    *string            `hcl:"user,optional"`
	Env     *map[string]string `hcl:"env,optional"`
}

type devicesBlock struct {
	Nodes *[]string `hcl:"nodes,optional"`
}

type fsBlock struct {
	ReadOnly  *[]string `hcl:"read_only,optional"`
	ReadWrite *[]string `hcl:"read_write,optional"`
}

type kvBlock struct {
	Enabled *bool `hcl:"enabled,optional"`
}

type wasmBlock struct {
	Enabled     *bool     `hcl:"enabled,optional"`
	Directories *[]string `hcl:"directories,optional"`
	MaxPrograms *int      `hcl:"max_programs,optional"`
}

// Load reads files and directories over a configuration: what a file sets replaces what
// was set before, key by key; a plugin is configured in one place. Of a directory it
// reads what ends in .hcl or .json and does not begin with a dot, in the order of the names.
//
// The error lists every fault, a line each, with its position; then the configuration
// is as it was. Nothing is validated beyond the files' own shape: see
// [Config.Validate]. What is Nomad's and has no part here is in Warnings afterwards, if it
// is not refused.
func (c *Config) Load(paths ...string) error {
	files, err := expand(paths)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	l := loader{config: *c, blocks: map[string]hcl.Range{}}
	l.config.Plugins = maps.Clone(c.Plugins)
	if l.config.Plugins == nil {
		l.config.Plugins = map[string]Plugin{}
	}
	for _, path := range files {
		content, err := read(path)
		if err != nil {
			return fmt.Errorf("configuration: %w", err)
		}
		l.file(path, content)
	}
	if l.diags.HasErrors() {
		return fmt.Errorf("configuration: %w", errors.New(strings.Join(hclvalue.Lines(l.diags), "\n")))
	}
	*c = l.config
	c.asksItself()
	c.Warnings = slices.Concat(c.Warnings, l.warnings(len(c.Client.Servers) > 0), c.Access.TLS.unused(len(c.Client.Servers) > 0), c.sinkWarnings(), c.Tracing.warnings())
	return nil
}

// expand replaces directories by their files.
func expand(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		entries, err := os.ReadDir(path) // sorted
		if err != nil {
			return nil, err
		}
		before := len(files)
		for _, e := range entries {
			switch name := e.Name(); {
			case strings.HasPrefix(name, "."):
			case strings.HasSuffix(name, ".hcl"), strings.HasSuffix(name, ".json"):
				files = append(files, filepath.Join(path, name))
			}
		}
		if len(files) == before {
			return nil, fmt.Errorf("%s: no file in it ends in .hcl or .json", path)
		}
	}
	return files, nil
}

// read reads a file, or as much of it as shows that it is too large.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, hclvalue.MaxBytes+1))
}

// loader puts files over a configuration and collects what is wrong with them.
type loader struct {
	config Config
	blocks map[string]hcl.Range // of which there is one of a name, and where it is
	diags  hcl.Diagnostics
}

func (l *loader) file(path string, content []byte) {
	before := len(l.diags)
	body, lines, diags := parse(path, content)
	l.diags = append(l.diags, diags...)
	if body != nil {
		var f file
		l.add(assignedBlocks(body))
		l.nomad(body, "")
		l.addresses(body, "")
		l.add(gohcl.DecodeBody(body, nil, &f))
		for _, b := range body.Blocks {
			if slices.Contains([]string{"event_sink", "plugin"}, b.Type) && len(b.Labels) == 1 {
				l.once(b.Type, b.Labels[0], b.DefRange(), lines)
			}
		}
		l.apply(&f)
	}
	relocate(l.diags[before:], path, lines)
}

// parse reads a file's syntax: JSON, or HCL with maps as blocks; when it is not HCL's own, then with
// blocks on one line allowed. It returns where the lines that it is about begin; nil: where they are.
func parse(path string, content []byte) (*hclsyntax.Body, []hcl.Pos, hcl.Diagnostics) {
	if isJSON(content) {
		body, diags := parseJSON(path, content)
		return body, nil, diags
	}
	if len(content) <= hclvalue.MaxBytes {
		content = assignMaps(path, content)
	}
	body, diags := hclvalue.ParseFile(path, content)
	if body != nil || len(content) > hclvalue.MaxBytes {
		return body, nil, diags
	}
	text, lines := unfold(path, content)
	body, diags = hclvalue.ParseFile(path, text)
	return body, lines, diags
}

// add collects faults, but not those that follow from others: a value that could not
// be evaluated is also of no suitable type.
func (l *loader) add(diags hcl.Diagnostics) {
	failed := map[hcl.Pos]bool{}
	for _, d := range diags {
		if d.Subject == nil || !failed[d.Subject.Start] {
			l.diags = append(l.diags, d)
		}
		if d.Subject != nil && d.Expression != nil && d.EvalContext == nil {
			failed[d.Subject.Start] = true
		}
	}
}

// once refuses a second block of a type and a name, in the same file or in another.
func (l *loader) once(kind, name string, at hcl.Range, lines []hcl.Pos) {
	key := kind + " " + name
	if first, ok := l.blocks[key]; ok {
		l.diags = append(l.diags, hclvalue.Errorf(at, "Duplicate %s %q; it is configured at %s:%d already.", kind, name, first.Filename, first.Start.Line)...)
		return
	}
	l.blocks[key] = moved(at, lines)
}

// apply puts what a file sets over the configuration.
func (l *loader) apply(f *file) {
	c := &l.config
	set(&c.Name, f.Name)
	set(&c.Region, f.Region)
	set(&c.Datacenter, f.Datacenter)
	if f.DataDir != nil && c.PluginDir == filepath.Join(c.DataDir, "plugins") {
		c.PluginDir = filepath.Join(*f.DataDir, "plugins") // it is in there unless it is set
	}
	set(&c.DataDir, f.DataDir)
	set(&c.PluginDir, f.PluginDir)
	set(&c.BindAddr, f.BindAddr)
	set(&c.LogLevel, f.LogLevel)
	set(&c.LogJSON, f.LogJSON)
	set(&c.EventLogLevel, f.EventLogLevel)
	set(&c.EnableDebug, f.EnableDebug)
	set(&c.RequirePinned, f.RequirePinned)
	set(&c.RequireLock, f.RequireLock)
	set(&c.TrustedKeys, f.TrustedKeys)
	set(&c.RequireSigned, f.RequireSigned)
	l.access(f)
	if f.Addresses != nil {
		set(&c.BindAddr, f.Addresses.HTTP)
	}
	if f.Ports != nil {
		set(&c.HTTPPort, f.Ports.HTTP)
	}
	if f.Client != nil {
		l.client(f.Client)
	}
	if f.Server != nil {
		l.server(f.Server)
	}
	if f.Telemetry != nil {
		l.telemetry(f.Telemetry)
	}
	if f.Tracing != nil {
		l.tracing(f.Tracing)
	}
	if f.PluginLimits != nil {
		set(&c.PluginLimits.Memory, f.PluginLimits.Memory)
		set(&c.PluginLimits.AllMemory, f.PluginLimits.AllMemory)
		set(&c.PluginLimits.CPU, f.PluginLimits.CPU)
	}
	for _, s := range f.EventSinks {
		l.eventSink(s)
	}
	for _, p := range f.Plugins {
		l.plugin(p)
	}
}

func (l *loader) client(b *clientBlock) {
	c := &l.config.Client
	set(&c.Servers, b.Servers)
	set(&c.StandaloneJobs, b.StandaloneJobs)
	if b.ServerJoin != nil && b.ServerJoin.RetryJoin != nil {
		c.Servers = slices.Concat(c.Servers, *b.ServerJoin.RetryJoin)
	}
	set(&c.NodeClass, b.NodeClass)
	set(&c.NodePool, b.NodePool)
	set(&c.Meta, b.Meta)
	set(&c.ChrootEnv, b.ChrootEnv)
	set(&c.EnvDenylist, b.EnvDenylist)
	set(&c.DisableRemoteExec, b.DisableExec)
	set(&c.GCMaxAllocs, b.GCMaxAllocs)
	set(&c.GCDiskUsage, b.GCDiskUsage)
	set(&c.GCInodeUsage, b.GCInodeUsage)
	set(&c.GCParallel, b.GCParallel)
	set(&c.CNIPath, b.CNIPath)
	set(&c.CNIConfigDir, b.CNIConfigDir)
	set(&c.BridgeName, b.BridgeName)
	set(&c.BridgeSubnet, b.BridgeSubnet)
	set(&c.GCInterval, l.duration(b.GCInterval))
	set(&c.MaxKillTimeout, l.duration(b.MaxKillTimeout))
	if b.Artifact != nil {
		set(&c.Artifact.MaxSize, b.Artifact.MaxSize)
		set(&c.Artifact.MaxFiles, b.Artifact.MaxFiles)
		set(&c.Artifact.Timeout, l.duration(b.Artifact.Timeout))
	}
	if t := b.Template; t != nil {
		set(&c.Templates.Denied, t.Blocked)
		set(&c.Templates.Denied, t.Denied)
		l.wait(&c.Templates.Wait, t.Wait)
		l.wait(&c.Templates.WaitBounds, t.WaitBounds)
	}
	if b.Reserved != nil {
		set(&c.Reserved.CPU, b.Reserved.CPU)
		set(&c.Reserved.Memory, b.Reserved.Memory)
		set(&c.Reserved.Disk, b.Reserved.Disk)
		set(&c.ReservedPorts, b.Reserved.Ports)
		set(&c.ReservedCores, b.Reserved.Cores)
	}
	for _, h := range b.HostNetworks {
		network := c.HostNetworks[h.Name]
		set(&network.CIDR, h.CIDR)
		set(&network.Interface, h.Interface)
		set(&network.ReservedPorts, h.Ports)
		c.HostNetworks = with(c.HostNetworks, h.Name, network)
	}
	for _, v := range b.HostVolumes {
		volume := c.HostVolumes[v.Name]
		set(&volume.Path, v.Path)
		set(&volume.ReadOnly, v.ReadOnly)
		c.HostVolumes = with(c.HostVolumes, v.Name, volume)
	}
	set(&c.HostVolumesDir, b.VolumesDir)
	set(&c.HostVolumePluginDir, b.VolumePlugins)
	l.options(b.Options)
	if b.Drivers != nil {
		set(&c.AllowedDrivers, b.Drivers.Allow)
		set(&c.BlockedDrivers, b.Drivers.Block)
	}
}

// with returns labelled blocks with one more, or another of that name: what was loaded before is
// not changed.
func with[V any](blocks map[string]V, name string, block V) map[string]V {
	c := maps.Clone(blocks)
	if c == nil {
		c = map[string]V{}
	}
	c[name] = block
	return c
}

func (l *loader) wait(to *Wait, b *waitBlock) {
	if b != nil {
		set(&to.Min, l.duration(b.Min))
		set(&to.Max, l.duration(b.Max))
	}
}

// duration reads a duration such as "30s"; nil: there is none, or the error was reported.
func (l *loader) duration(a *hcl.Attribute) *time.Duration {
	if a == nil {
		return nil
	}
	v, diags := a.Expr.Value(nil)
	l.diags = append(l.diags, diags...)
	if diags.HasErrors() || v.IsNull() {
		return nil
	}
	if v.Type() == cty.String {
		if d, err := time.ParseDuration(v.AsString()); err == nil {
			return &d
		}
	}
	l.diags = append(l.diags, hclvalue.Errorf(a.Expr.Range(), "Unsuitable duration value; a duration looks like \"30s\", \"5m\" or \"1h30m\".")...)
	return nil
}

func (l *loader) plugin(b *pluginBlock) {
	p := Plugin{}
	set(&p.File, b.File)
	set(&p.SHA256, b.SHA256)
	if b.Config != nil {
		config, diags := hclvalue.Body(b.Config.Body.(*hclsyntax.Body), nil)
		l.diags = append(l.diags, diags...)
		p.Config = config
	}
	if b.Grant != nil {
		l.grant(&p.Grant, b.Grant)
	}
	l.config.Plugins[b.Name] = p
}

// grant puts what a block grants over what is granted.
func (l *loader) grant(to *host.Grants, g *grantBlock) {
	if g.FS != nil {
		set(&to.FS.ReadOnly, g.FS.ReadOnly)
		set(&to.FS.ReadWrite, g.FS.ReadWrite)
	}
	if g.KV != nil {
		set(&to.KV.Enabled, g.KV.Enabled)
	}
	if g.Wasm != nil {
		to.Wasm.Denied = g.Wasm.Enabled != nil && !*g.Wasm.Enabled
		set(&to.Wasm.Directories, g.Wasm.Directories)
		set(&to.Wasm.MaxPrograms, g.Wasm.MaxPrograms)
	}
	if g.Process != nil {
		set(&to.Process.Commands, g.Process.Commands)
		set(&to.Process.Users, g.Process.Users)
		set(&to.Process.Capabilities, g.Process.Capabilities)
		set(&to.Process.Paths, g.Process.Paths)
		set(&to.Process.Mounts, g.Process.Mounts)
		set(&to.Process.HostNetwork, g.Process.HostNetwork)
		l.leastIsolation(&to.Process, g.Process.Isolation)
		for _, b := range g.Process.Helpers {
			helper := host.HelperGrant{Command: b.Command}
			set(&helper.Args, b.Args)
			set(&helper.User, b.User)
			set(&helper.Env, b.Env)
			to.Process.Helpers = append(to.Process.Helpers, helper)
		}
	}
	if g.Devices != nil {
		set(&to.Devices.Nodes, g.Devices.Nodes)
	}
	if g.Net != nil {
		set(&to.Net.Addresses, g.Net.Addresses)
		set(&to.Net.Sockets, g.Net.Sockets)
		set(&to.Net.Namespaces, g.Net.Namespaces)
	}
	if g.HTTP != nil {
		for _, e := range g.HTTP.Endpoints {
			endpoint := host.HTTPEndpoint{Endpoint: e.Endpoint}
			set(&endpoint.Methods, e.Methods)
			set(&endpoint.Paths, e.Paths)
			to.HTTP.Endpoints = append(to.HTTP.Endpoints, endpoint)
		}
	}
}

// leastIsolation reads the least isolation that processes have to have.
func (l *loader) leastIsolation(g *host.ProcessGrant, a *hcl.Attribute) {
	if a == nil {
		return
	}
	v, diags := a.Expr.Value(nil)
	l.diags = append(l.diags, diags...)
	if diags.HasErrors() || v.IsNull() {
		return
	}
	if v.Type() != cty.String || !g.SetIsolation(v.AsString()) {
		l.diags = append(l.diags, hclvalue.Errorf(a.Expr.Range(), "Unsuitable isolation; it is \"none\", \"paths\" or \"full\".")...)
	}
}

// set overwrites a value with one that was given.
func set[T any](to *T, given *T) {
	if given != nil {
		*to = *given
	}
}
