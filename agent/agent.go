package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/agent/eventsink"
	"github.com/wasmnode/wasmnode/controlplane/cluster"
	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/internal/sdnotify"
	"github.com/wasmnode/wasmnode/internal/tracing"
	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/devices"
	"github.com/wasmnode/wasmnode/managers/drivers"
	"github.com/wasmnode/wasmnode/managers/volumes"
	"github.com/wasmnode/wasmnode/node"
	"github.com/wasmnode/wasmnode/runners/network"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/process"
)

// Options are those of the command line, which override the configuration files.
type Options struct {
	// Dev: everything is temporary, and WASI programs may come from the working
	// directory.
	Dev         bool
	ConfigPaths []string // files and directories, in order
	DataDir     string
	PluginDir   string
	HTTPAddr    string // HOST:PORT, or unix:// and a socket's path
	LogLevel    string
	Set         []config.Setting // in order; the flags above win
	LogOutput   io.Writer
	// CodeDir is where compiled code is kept, which several agents may share; empty: in the data
	// directory.
	CodeDir string
	// Supervisor is the command that owns the tasks when it is run with
	// -data-dir=DIR, see [RunSupervisor], so that they outlive the agent. Nil, and
	// with Dev: the agent owns them itself, and they end with it.
	Supervisor []string
	// Reload has the configuration read again for each value.
	Reload <-chan os.Signal
	// Service is what is told how the agent is; nil: nobody is.
	Service *sdnotify.Service
	// Answers, unless it is nil, is called once: when the API answers, with its HOST:PORT.
	// Plugins are not loaded yet and nothing is restored.
	Answers func(address string)
	// Ready, unless it is nil, is called once, with the same: when what was stored is
	// restored and each plugin that was there at the start is in service or refused. It is not
	// waited for longer than 50 s for a plugin.
	Ready func(address string)
}

// Run runs an agent until ctx is done. It returns when nothing of it is left.
//
// # Errors
//
// What keeps an agent from starting: a configuration that is wrong, a directory that
// cannot be written, a port or a data directory that another process uses. Nothing
// is running then.
func Run(ctx context.Context, o Options) error {
	cfg, defaults, cleanup, err := configure(o)
	if err != nil {
		return err
	}
	defer cleanup()
	// What plugins compute leaves one processor to all else, also where there is only one.
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{
		Name:       "wasmnode",
		Level:      hclog.LevelFromString(cfg.LogLevel),
		JSONFormat: cfg.LogJSON,
		Output:     o.LogOutput,
	})
	a := &agent{
		cfg: cfg, defaults: defaults, inForce: cfg, dev: o.Dev, codeDir: o.CodeDir, logger: logger, logs: logger,
		service: o.Service, answers: o.Answers, ready: o.Ready,
		outcomes: newOutcomes(), eventLog: newEventLog(logger, cfg.EventLogLevel), sinkMetrics: eventsink.NewMetrics(),
		loading: wake.New(), reloads: make(chan chan error),
	}
	a.warn(cfg)
	// First, because it is what fails most often.
	listeners, err := a.listen()
	if err != nil {
		return err
	}
	defer closeAll(listeners)
	if !o.Dev {
		a.supervisor = o.Supervisor
	}
	defer a.close()
	if err := a.open(); err != nil {
		return err
	}
	return a.run(ctx, o, listeners)
}

// agent is the layers, from the ground up.
type agent struct {
	cfg        config.Config // that the agent was started with
	defaults   config.Config // where neither files nor flags say otherwise
	inForce    config.Config // as it was read last
	dev        bool
	codeDir    string // for compiled code; empty: in the data directory
	logger     hclog.Logger
	logs       hclog.InterceptLogger // the same, which can be listened to
	address    string                // of the API: HOST:PORT, or unix:// and a socket's path
	service    *sdnotify.Service     // or nil
	answers    func(address string)  // or nil
	ready      func(address string)  // or nil
	supervisor []string              // the command that owns the tasks; nil: the agent does

	state     state.DB
	plane     *standalone.ControlPlane
	cluster   *cluster.ControlPlane // nil: the agent schedules for its own machine
	asked     serverCalls           // by its servers
	engine    *sandbox.Engine
	host      *host.Host
	workloads workload.Runtime
	catalog   *catalog.Catalog
	drivers   *drivers.Manager
	devices   *devices.Manager
	node      *node.Node
	taskAPI   *taskAPI

	bounds       *access.Bounds
	certificates *certificates // nil: the API has no TLS

	loading     wake.Signal // other plugins are loading than before
	conditions  conditions
	outcomes    *outcomes
	eventLog    *eventLog
	sinks       []*eventsink.Sink
	sinkMetrics *eventsink.Metrics
	traces      *tracing.Tracer // nil: nothing is traced
	reloads     chan chan error // asked for by the API, each with where its error goes
	closers     []func()        // in the order of opening
}

// warn tells what is in the configuration and has no effect.
func (a *agent) warn(cfg config.Config) {
	for _, warning := range cfg.Warnings {
		a.logger.Warn("configuration: " + warning)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Plugins)) {
		file := cmp.Or(cfg.Plugins[name].File, name+".wasm")
		if _, err := os.Stat(filepath.Join(cfg.PluginDir, file)); errors.Is(err, fs.ErrNotExist) {
			a.logger.Warn(fmt.Sprintf("configuration: plugin %q has no effect until there is %s: copy it there, or leave the block out", name, filepath.Join(cfg.PluginDir, file)))
		}
	}
}

// close takes down what was opened, the last first.
func (a *agent) close() {
	for i := len(a.closers) - 1; i >= 0; i-- {
		a.closers[i]()
	}
}

func (a *agent) closing(what string, f func() error) {
	a.closers = append(a.closers, func() {
		if err := f(); err != nil {
			a.logger.Error("shutting down: "+what, "error", err)
		}
	})
}

// open opens every layer but the node.
func (a *agent) open() (err error) {
	if err := a.openFiles(); err != nil {
		return err
	}
	if a.engine, err = openEngine(cmp.Or(a.codeDir, codeDir(a.cfg.DataDir)), a.logger); err != nil {
		return err
	}
	a.closing("engine", func() error { return a.engine.Close(context.Background()) })
	if err := a.openWorkloads(); err != nil {
		return err
	}
	return a.openPlugins()
}

// codeDir is where the compiled code of what a data directory's agent or supervisor runs is.
func codeDir(dir string) string { return filepath.Join(dir, "cache") }

// openEngine opens an engine that keeps compiled code in a directory, unless it could be others'
// code that is found there.
func openEngine(dir string, logger hclog.Logger) (*sandbox.Engine, error) {
	logger = logger.Named("engine")
	e, err := sandbox.Open(sandbox.Config{CacheDir: dir, Logger: logger})
	if errors.Is(err, sandbox.ErrUntrustedCache) {
		logger.Warn("compiled code is not kept, and plugins are compiled at each start", "error", err)
		return sandbox.Open(sandbox.Config{Logger: logger})
	}
	return e, err
}

// openPlugins joins the host, the catalog and the managers, which need each other:
// plugins report to the managers, which get them from the catalog.
func (a *agent) openPlugins() (err error) {
	if a.cfg.PluginDir == filepath.Join(a.cfg.DataDir, "plugins") { // any other is the operator's to make
		if err := os.MkdirAll(a.cfg.PluginDir, 0o755); err != nil {
			return fmt.Errorf("plugin_dir: %w", err)
		}
	}
	a.host = host.New(host.Config{
		Logger:    a.logger.Named("plugin"),
		Engine:    a.engine,
		Workloads: tracedWorkloads{a.workloads},
		Store:     kept{a.state},
		Version:   Version,
		Chroot:    a.cfg.Client.ChrootEnv,
		Limits:    a.pluginLimits(),
		// A driver and a device plugin may have one name.
		OnRefresh: func(plugin string) { a.drivers.Refresh(plugin); a.devices.Refresh(plugin) },
	})
	decided, err := settings(a.cfg, a.dev)
	if err != nil {
		return err
	}
	a.catalog, err = catalog.New(catalog.Config{
		Dir:      a.cfg.PluginDir,
		Logger:   a.logger.Named("catalog"),
		Loader:   catalog.HostLoader{Host: a.host},
		Settings: decided,
		Refused:  func(file, why string) { a.node.RefusePlugin(file, why) },

		LoadingChanged: func() { a.node.UpdateLoading(a.catalog.LoadingFiles); a.loading.Set() },
	})
	if err != nil {
		return fmt.Errorf("%w, or choose another with -plugin-dir", err)
	}
	a.drivers = drivers.New(drivers.Config{
		Catalog:   a.catalog,
		Workloads: a.workloads,
		Logger:    a.logger.Named("driver"),
		Updater:   func(name string, info *structs.DriverInfo) { a.node.UpdateDriver(name, info) },
		Store:     a.state,
	})
	a.devices = devices.New(devices.Config{
		Catalog: a.catalog,
		Logger:  a.logger.Named("device"),
		Updater: func(groups []*structs.DeviceGroup) { a.node.UpdateDevices(groups) },
		Store:   a.state,
	})
	a.closers = append(a.closers, a.catalog.Shutdown, a.drivers.Shutdown, a.devices.Shutdown)
	return nil
}

// run serves the API, starts the plugins and the node, and waits for the end.
func (a *agent) run(ctx context.Context, o Options, listeners []net.Listener) (err error) {
	a.taskAPI = newTaskAPI()
	a.node, err = node.New(node.Config{
		API:            a.taskAPI,
		Logger:         a.logger.Named("client"),
		ControlPlane:   a.controlPlane(),
		Elsewhere:      a.elsewhere(),
		State:          a.state,
		Dispense:       task.DispenseFrom(a.drivers.Dispense),
		DestroyNetwork: a.drivers.DestroyNetwork,
		Devices:        a.devices,
		Volumes:        a.hostVolumes(),
		Workloads:      a.outliving(),
		BootID:         bootID(),
		Stored:         a.loadPlugins,
		DriversReady:   a.pluginsReady,
		ReadyFor:       a.pluginsReadyFor,
		AllocsDir:      allocsDir(a.cfg.DataDir),
		HeardFile:      a.heardFile(),
		Identity:       a.identity(),
		Limits:         a.limits(),
		GC:             a.collection(),
		Ephemeral:      a.dev,
		NoExec:         a.cfg.Client.DisableRemoteExec,

		SecretsInMemory: a.secretsInMemory(),
		Traces:          a.traces,

		Networks: networks(a.cfg.Client),
		HostEnv:  taskEnvironment(os.Environ(), a.cfg.Client.EnvDenylist, process.ParentCgroup()),
	})
	if err != nil {
		return err
	}
	a.plane.SetVolumeHost(a.node)
	if a.cluster != nil {
		a.answerServers()
		defer func() { _ = a.cluster.Close() }() // before what is asked of is gone
	}
	if err := a.openSinks(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// First of all: what plugins do, and how much there is to restore, delays no answer.
	web := a.serve(listeners, cancel)
	defer web.stop()
	a.logger.Info("the API answers", "http_addr", a.address, "node_id", a.node.ID())
	a.service.Ready()
	a.service.Status("the API answers at " + a.address + "; restoring allocations and loading plugins")
	if a.answers != nil {
		a.answers(a.address)
	}
	var beside sync.WaitGroup
	defer func() { cancel(nil); beside.Wait() }()
	beside.Go(func() { a.service.Watch(ctx, a.alive) })
	beside.Go(func() { <-ctx.Done(); a.service.Stopping() })
	beside.Go(func() { a.watchDisk(ctx) })
	beside.Go(func() { a.reloadOn(ctx, o) })
	beside.Go(func() { a.freeMemory(ctx) })
	beside.Go(func() { a.runSinks(ctx) })
	err = a.node.Run(ctx, func() {
		a.logger.Info("agent is ready", "http_addr", a.address, "node_id", a.node.ID(), "plugin_dir", a.cfg.PluginDir, "data_dir", a.cfg.DataDir)
		if text := a.unclaimedText(); text != "" {
			a.logger.Warn(text)
		}
		a.service.Status("the API answers at " + a.address)
		if a.ready != nil {
			a.ready(a.address)
		}
	})
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	a.logger.Info("agent is shutting down")
	return err
}

// alive returns when the layers below the API do: it does not while one of them is stuck.
func (a *agent) alive() {
	_ = a.currentConditions()
	_ = a.plane.Index("jobs")
	_ = a.devices.AllStats()
}

func (a *agent) deviceMetrics() deviceMetrics {
	return deviceMetrics{func() []*structs.DeviceGroup { return a.node.Structs().Devices }, a.devices.AllStats}
}

// identity is what the operator configured about the node.
func (a *agent) identity() structs.Node {
	c := a.cfg.Client
	return structs.Node{
		Name:        a.cfg.Name,
		Datacenter:  a.cfg.Datacenter,
		Region:      a.cfg.Region,
		Pool:        c.NodePool,
		Class:       c.NodeClass,
		Meta:        c.Meta,
		HTTPAddress: a.dialled(),
		TLS:         a.cfg.Access.TLS.HTTP,
		Version:     Version,
		Reserved:    structs.NodeResources{CPUMHz: c.Reserved.CPU, MemoryMB: c.Reserved.Memory, DiskMB: c.Reserved.Disk},

		ReservedCores: config.Cores(c.ReservedCores),
		ReservedPorts: config.Ports(c.ReservedPorts),
		HostNetworks:  hostNetworks(c.HostNetworks),
		HostVolumes:   configuredVolumes(c.HostVolumes),
	}
}

// hostNetworks are the configured networks, sorted by name; the node finds their addresses.
func hostNetworks(configured map[string]config.HostNetwork) (networks []structs.HostNetwork) {
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		h := configured[name]
		networks = append(networks, structs.HostNetwork{
			Name: name, CIDR: h.CIDR, Interface: h.Interface, ReservedPorts: config.Ports(h.ReservedPorts),
		})
	}
	return networks
}

// hostVolumes makes volumes for whoever asks for them.
func (a *agent) hostVolumes() *volumes.Manager {
	c := a.cfg.Client
	return volumes.New(volumes.Config{
		Dir:       filepath.Clean(cmp.Or(c.HostVolumesDir, filepath.Join(a.cfg.DataDir, "host_volumes"))),
		PluginDir: filepath.Clean(cmp.Or(c.HostVolumePluginDir, filepath.Join(a.cfg.DataDir, "host_volume_plugins"))),
		NodePool:  c.NodePool,
		Logger:    a.logger.Named("volumes"),
	})
}

// configuredVolumes are those of the configuration, sorted by name.
func configuredVolumes(configured map[string]config.HostVolume) (volumes []structs.HostVolume) {
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		v := configured[name]
		volumes = append(volumes, structs.HostVolume{Name: name, Path: filepath.Clean(v.Path), ReadOnly: v.ReadOnly})
	}
	return volumes
}

// networks gives allocations networks of their own. What is given is kept where it does not
// outlive the machine's run, and in one place for all agents: they share the bridge.
func networks(c config.Client) *network.Networks {
	return network.New(network.Config{
		PluginPath: filepath.SplitList(c.CNIPath), ConfigDir: c.CNIConfigDir,
		Bridge: c.BridgeName, Subnet: netip.MustParsePrefix(c.BridgeSubnet), // validated when it was loaded
		NamespaceDir: "/run/netns", RunDir: "/run/wasmnode/networks",
	})
}

// dialled is the address that other machines' tools connect to; empty: there is none.
func (a *agent) dialled() string {
	if a.cfg.Socket() != "" {
		return ""
	}
	return a.address
}

// collection is when ended allocations are destroyed.
func (a *agent) collection() node.GC {
	c := a.cfg.Client
	return node.GC{
		MaxAllocs: c.GCMaxAllocs, DiskPercent: c.GCDiskUsage, InodePercent: c.GCInodeUsage,
		Interval: c.GCInterval, Parallel: c.GCParallel,
	}
}
