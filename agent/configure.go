package agent

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/catalog"
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
	address, port, err := net.SplitHostPort(o.HTTPAddr)
	if err != nil {
		return fmt.Errorf("-http-addr %q: it has the form HOST:PORT, such as 127.0.0.1:4646", o.HTTPAddr)
	}
	cfg.BindAddr = address
	if cfg.HTTPPort, err = strconv.Atoi(port); err != nil || cfg.HTTPPort < 0 || cfg.HTTPPort > 65535 {
		return fmt.Errorf("-http-addr %q: %q is not a port", o.HTTPAddr, port)
	}
	return nil
}

// settings are what the operator decided about plugins. With -dev, programs may also come
// from the working directory.
func settings(cfg config.Config, dev bool) catalog.Settings {
	s := catalog.Settings{Plugins: map[string]catalog.PluginSettings{}, RequirePinned: cfg.RequirePinned}
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
	return s
}

// limits bounds what the tasks' runners wait for and fetch.
func (a *agent) limits() task.Limits {
	c := a.cfg.Client
	return task.Limits{
		MaxKillTimeout: c.MaxKillTimeout,
		Artifact:       artifact.Limits{Bytes: int64(c.Artifact.MaxSize) << 20, Files: int64(c.Artifact.MaxFiles), Time: c.Artifact.Timeout},
	}
}
