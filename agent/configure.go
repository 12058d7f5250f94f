package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/runners/artifact"
	"github.com/wasmnode/wasmnode/runners/task"
)

// configure makes the configuration: defaults, then -dev, then files, then flags. The
// function that it returns removes what is temporary.
func configure(o Options) (cfg config.Config, cleanup func(), err error) {
	cfg, cleanup = config.Default(), func() {}
	if o.Dev {
		dir, err := os.MkdirTemp("", "wasmnode-dev-")
		if err != nil {
			return cfg, cleanup, fmt.Errorf("-dev: %w", err)
		}
		cleanup = func() { _ = os.RemoveAll(dir) }
		cfg.DataDir, cfg.PluginDir = dir, filepath.Join(dir, "plugins")
	}
	if err := cfg.Load(o.ConfigPaths...); err != nil {
		cleanup()
		return cfg, nil, err
	}
	if err := applyFlags(&cfg, o); err != nil {
		cleanup()
		return cfg, nil, err
	}
	if err := cfg.Validate(); err != nil {
		cleanup()
		return cfg, nil, fmt.Errorf("configuration: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return cfg, cleanup, nil
}

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

// grants returns what the operator granted a plugin. With -dev, programs may also come
// from the working directory.
func (a *agent) grants(plugin string) host.Grants {
	g := a.cfg.Plugin(plugin).Grant
	if a.dev {
		if dir, err := os.Getwd(); err == nil {
			g.Wasm.Directories = append(slices.Clone(g.Wasm.Directories), dir)
		}
	}
	return g
}

// limits bounds what the tasks' runners wait for and fetch.
func (a *agent) limits() task.Limits {
	c := a.cfg.Client
	return task.Limits{
		MaxKillTimeout: c.MaxKillTimeout,
		Artifact:       artifact.Limits{Bytes: int64(c.Artifact.MaxSize) << 20, Files: int64(c.Artifact.MaxFiles), Time: c.Artifact.Timeout},
	}
}

// pluginLimits bounds what a plugin uses of the machine.
func (a *agent) pluginLimits() host.Limits {
	c := a.cfg.PluginLimits
	return host.Limits{
		AllMemoryBytes:    uint64(c.AllMemory) << 20,
		PluginMemoryBytes: uint64(c.Memory) << 20,
		CPUPerMinute:      time.Duration(c.CPU) * time.Minute / 100,
	}
}

// pinned compares a plugin's digest with the configuration.
func (a *agent) pinned(plugin, digest string) error {
	want := a.cfg.Plugin(plugin).SHA256
	fix := fmt.Sprintf("plugin %q { sha256 = %q }", plugin, digest)
	switch {
	case want == "" && a.cfg.RequirePinned:
		return errors.New("require_pinned is set and the plugin is not pinned: add " + fix)
	case want != "" && want != digest:
		return fmt.Errorf("its SHA-256 is %s, the configuration says %s: put the right file back, or change it to %s", digest, want, fix)
	}
	return nil
}
