package agent

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/pluginsign"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/drivers"
	"github.com/wasmnode/wasmnode/runners/artifact"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/runners/template"
)

// configure makes the configuration, and what it has where neither files nor flags say
// otherwise. The function that it returns removes what is temporary.
func configure(o Options) (cfg, defaults config.Config, cleanup func(), err error) {
	defaults, cleanup = config.Default(), func() {}
	if o.Dev {
		dir, err := os.MkdirTemp("", "wasmnode-dev-")
		if err != nil {
			return cfg, defaults, nil, fmt.Errorf("-dev: %w", err)
		}
		cleanup = func() { _ = os.RemoveAll(dir) }
		// As in Nomad: whoever tries something looks at what has ended, however full the disk is.
		defaults.EnableDebug = true
		defaults.Client.GCDiskUsage, defaults.Client.GCInodeUsage = 99, 99
		defaults.DataDir, defaults.PluginDir = dir, filepath.Join(dir, "plugins")
	}
	if cfg, err = load(defaults, o); err != nil {
		cleanup()
		return cfg, defaults, nil, err
	}
	return cfg, defaults, cleanup, nil
}

// load puts files, and then flags, over the defaults.
func load(cfg config.Config, o Options) (config.Config, error) {
	if err := cfg.Load(o.ConfigPaths...); err != nil {
		return cfg, err
	}
	for _, s := range o.Set {
		if err := cfg.Set(s); err != nil {
			return cfg, err
		}
	}
	if err := applyFlags(&cfg, o); err != nil {
		return cfg, err
	}
	if err := cfg.Validate(); err != nil {
		return cfg, fmt.Errorf("configuration: %s", oneLine(err))
	}
	if _, err := trustedKeys(cfg); err != nil {
		return cfg, fmt.Errorf("configuration: %w", err)
	}
	if err := checkSinks(cfg); err != nil {
		return cfg, fmt.Errorf("configuration: %w", err)
	}
	return cfg, nil
}

// loadToListen is load with the defaults, of what may listen where it says.
func loadToListen(o Options) (config.Config, error) {
	cfg, err := load(config.Default(), o)
	if err == nil {
		err = checkListening(cfg)
	}
	return cfg, err
}

// CheckConfiguration reads configuration files and directories, later ones over earlier ones, and
// returns what an agent would warn of with them, or why it would not start.
func CheckConfiguration(paths ...string) (warnings []string, err error) {
	cfg, err := loadToListen(Options{ConfigPaths: paths})
	if err == nil && cfg.Access.TLS.HTTP {
		_, err = openCertificates(cfg.Access.TLS, hclog.NewNullLogger(), &conditions{})
	}
	return cfg.Warnings, err
}

// oneLine puts errors that were joined on one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// applyFlags lets the command line win. Relative paths are the working directory's.
func applyFlags(cfg *config.Config, o Options) error {
	if o.DataDir != "" {
		dir, err := filepath.Abs(o.DataDir)
		if err != nil {
			return fmt.Errorf("-data-dir: %w", err)
		}
		if cfg.PluginDir == filepath.Join(cfg.DataDir, "plugins") {
			cfg.PluginDir = filepath.Join(dir, "plugins")
		}
		cfg.DataDir = dir
	}
	if o.PluginDir != "" {
		dir, err := filepath.Abs(o.PluginDir)
		if err != nil {
			return fmt.Errorf("-plugin-dir: %w", err)
		}
		cfg.PluginDir = dir
	}
	if o.LogLevel != "" {
		cfg.LogLevel = o.LogLevel
	}
	if o.HTTPAddr == "" {
		return nil
	}
	if strings.HasPrefix(o.HTTPAddr, "unix://") {
		cfg.BindAddr = o.HTTPAddr
		return nil
	}
	address, port, err := net.SplitHostPort(o.HTTPAddr)
	if err != nil {
		return fmt.Errorf("-http-addr %q: it has the form HOST:PORT, such as 127.0.0.1:4646, or unix:///PATH", o.HTTPAddr)
	}
	cfg.BindAddr = address
	if cfg.HTTPPort, err = strconv.Atoi(port); err != nil || cfg.HTTPPort < 0 || cfg.HTTPPort > 65535 {
		return fmt.Errorf("-http-addr %q: %q is not a port", o.HTTPAddr, port)
	}
	return nil
}

// settings are what the operator decided about plugins. With -dev, programs may also come
// from the working directory. The error is that of a key that cannot be read.
func settings(cfg config.Config, dev bool) (catalog.Settings, error) {
	keys, err := trustedKeys(cfg)
	if err != nil {
		return catalog.Settings{}, err
	}
	permitted := drivers.Permission{Allowed: cfg.Client.AllowedDrivers, Blocked: cfg.Client.BlockedDrivers}
	s := catalog.Settings{
		Plugins: map[string]catalog.PluginSettings{}, RequirePinned: cfg.RequirePinned, RequireLock: cfg.RequireLock, TrustedKeys: keys,
		Refuse: func(kind host.Kind, name string) string {
			if kind != host.KindDriver {
				return ""
			}
			return permitted.Refuse(name)
		},
	}
	granted := func(g host.Grants) host.Grants {
		if dir, err := os.Getwd(); dev && err == nil && !slices.Contains(g.Wasm.Directories, dir) {
			g.Wasm.Directories = append(slices.Clone(g.Wasm.Directories), dir)
		}
		return g
	}
	s.Others = granted(host.Grants{})
	for name, p := range cfg.Plugins {
		s.Plugins[name] = catalog.PluginSettings{File: p.File, SHA256: p.SHA256, Config: p.Config, Grants: granted(p.Grant)}
	}
	return s, nil
}

// trustedKeys reads the keys with which plugins have to be signed.
func trustedKeys(cfg config.Config) (pluginsign.Keys, error) {
	keys, err := pluginsign.ReadKeys(cfg.TrustedKeys)
	if err != nil {
		return nil, fmt.Errorf("trusted_keys: %w", err)
	}
	return keys, nil
}

// limits bounds what the tasks' runners wait for and fetch.
func (a *agent) limits() task.Limits {
	c := a.cfg.Client
	return task.Limits{
		MaxKillTimeout: c.MaxKillTimeout,
		Artifact:       artifact.Limits{Bytes: int64(c.Artifact.MaxSize) << 20, Files: int64(c.Artifact.MaxFiles), Time: c.Artifact.Timeout},
		Templates:      template.Limits{Wait: waitOf(c.Templates.Wait), WaitBounds: waitOf(c.Templates.WaitBounds), Denied: c.Templates.Denied},
	}
}

func waitOf(w config.Wait) template.Wait { return template.Wait{Min: w.Min, Max: w.Max} }

// pluginLimits bounds what a plugin uses of the machine.
func (a *agent) pluginLimits() host.Limits {
	c := a.cfg.PluginLimits
	return host.Limits{
		AllMemoryBytes:    uint64(c.AllMemory) << 20,
		PluginMemoryBytes: uint64(c.Memory) << 20,
		CPUPerMinute:      time.Duration(c.CPU) * time.Minute / 100,
	}
}
