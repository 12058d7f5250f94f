package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/wasmnode/wasmnode/hclvalue"
)

// maxFileBytes bounds a configuration file.
const maxFileBytes = 1 << 20

// file is the shape of the configuration files, all of them together. Pointers tell
// what is set from what is not.
type file struct {
	Name          *string        `hcl:"name,optional"`
	Region        *string        `hcl:"region,optional"`
	Datacenter    *string        `hcl:"datacenter,optional"`
	DataDir       *string        `hcl:"data_dir,optional"`
	PluginDir     *string        `hcl:"plugin_dir,optional"`
	BindAddr      *string        `hcl:"bind_addr,optional"`
	LogLevel      *string        `hcl:"log_level,optional"`
	LogJSON       *bool          `hcl:"log_json,optional"`
	RequirePinned *bool          `hcl:"require_pinned,optional"`
	Ports         *portsBlock    `hcl:"ports,block"`
	Client        *clientBlock   `hcl:"client,block"`
	Plugins       []*pluginBlock `hcl:"plugin,block"`
}

type portsBlock struct {
	HTTP *int `hcl:"http,optional"`
}

type clientBlock struct {
	NodeClass      *string            `hcl:"node_class,optional"`
	NodePool       *string            `hcl:"node_pool,optional"`
	Meta           *map[string]string `hcl:"meta,optional"`
	MaxKillTimeout *string            `hcl:"max_kill_timeout,optional"`
	GCMaxAllocs    *int               `hcl:"gc_max_allocs,optional"`
	Reserved       *reservedBlock     `hcl:"reserved,block"`
	Drivers        *driversBlock      `hcl:"drivers,block"`
}

type reservedBlock struct {
	CPU    *int `hcl:"cpu,optional"`
	Memory *int `hcl:"memory,optional"`
	Disk   *int `hcl:"disk,optional"`
}

type driversBlock struct {
	Allow *[]string `hcl:"allow,optional"`
	Block *[]string `hcl:"block,optional"`
}

type pluginBlock struct {
	Name   string       `hcl:",label"`
	SHA256 *string      `hcl:"sha256,optional"`
	Config *configBlock `hcl:"config,block"`
	Grant  *grantBlock  `hcl:"grant,block"`
}

type configBlock struct {
	Body hcl.Body `hcl:",remain"`
}

type grantBlock struct {
	FS   *fsBlock   `hcl:"fs,block"`
	Wasm *wasmBlock `hcl:"wasm,block"`
}

type fsBlock struct {
	ReadOnly  *[]string `hcl:"read_only,optional"`
	ReadWrite *[]string `hcl:"read_write,optional"`
}

type wasmBlock struct {
	Enabled     *bool     `hcl:"enabled,optional"`
	Directories *[]string `hcl:"directories,optional"`
	MaxPrograms *int      `hcl:"max_programs,optional"`
}

// Load reads files and directories over a configuration. Of a directory it reads what
// ends in .hcl, in the order of the names. The error lists every fault, a line each,
// with its position. Nothing is validated beyond the files' own shape.
func (c *Config) Load(paths ...string) error {
	files, err := expand(paths)
	if err != nil {
		return err
	}
	var bodies []hcl.Body
	var diags hcl.Diagnostics
	begins := map[string][]hcl.Pos{}
	fail := func() error {
		for path, lines := range begins {
			relocate(diags, path, lines)
		}
		return faults(diags)
	}
	for _, path := range files {
		content, err := read(path)
		if err != nil {
			return err
		}
		text, lines := unfold(path, content)
		begins[path] = lines
		f, d := hclsyntax.ParseConfig(text, path, hcl.InitialPos)
		diags = append(diags, d...)
		if f != nil && !d.HasErrors() {
			bodies = append(bodies, f.Body)
		}
	}
	if diags.HasErrors() {
		return fail()
	}
	var f file
	if diags = gohcl.DecodeBody(hcl.MergeBodies(bodies), nil, &f); diags.HasErrors() {
		return fail()
	}
	return f.apply(c)
}

// expand replaces directories by their files.
func expand(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("configuration: %w", err)
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		found, err := filepath.Glob(filepath.Join(path, "*.hcl"))
		if err != nil {
			return nil, fmt.Errorf("configuration: %s: %w", path, err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("configuration: %s: no file in it ends in .hcl", path)
		}
		slices.Sort(found)
		files = append(files, found...)
	}
	return files, nil
}

func read(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if len(content) > maxFileBytes {
		return nil, fmt.Errorf("configuration: %s: %d bytes, the limit is %d", path, len(content), maxFileBytes)
	}
	return content, nil
}

// faults renders diagnostics, a line each.
func faults(diags hcl.Diagnostics) error {
	var lines []string
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		text := strings.Join(strings.Fields(d.Summary+"; "+d.Detail), " ")
		if d.Subject != nil {
			text = fmt.Sprintf("%s:%d,%d: %s", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column, text)
		}
		lines = append(lines, text)
	}
	return fmt.Errorf("configuration: %s", strings.Join(lines, "\n"))
}

// apply puts what the files set over a configuration.
func (f *file) apply(c *Config) error {
	set(&c.Name, f.Name)
	set(&c.Region, f.Region)
	set(&c.Datacenter, f.Datacenter)
	set(&c.DataDir, f.DataDir)
	if f.DataDir != nil && f.PluginDir == nil {
		c.PluginDir = filepath.Join(*f.DataDir, "plugins")
	}
	set(&c.PluginDir, f.PluginDir)
	set(&c.BindAddr, f.BindAddr)
	set(&c.LogLevel, f.LogLevel)
	set(&c.LogJSON, f.LogJSON)
	set(&c.RequirePinned, f.RequirePinned)
	if f.Ports != nil {
		set(&c.HTTPPort, f.Ports.HTTP)
	}
	if f.Client != nil {
		if err := f.Client.apply(&c.Client); err != nil {
			return err
		}
	}
	c.Plugins = maps.Clone(c.Plugins)
	for _, p := range f.Plugins {
		if err := p.apply(c); err != nil {
			return err
		}
	}
	return nil
}

func (b *clientBlock) apply(c *Client) error {
	set(&c.NodeClass, b.NodeClass)
	set(&c.NodePool, b.NodePool)
	set(&c.Meta, b.Meta)
	set(&c.GCMaxAllocs, b.GCMaxAllocs)
	if b.MaxKillTimeout != nil {
		d, err := time.ParseDuration(*b.MaxKillTimeout)
		if err != nil {
			return fmt.Errorf("configuration: client.max_kill_timeout: %q is no duration such as \"30s\"", *b.MaxKillTimeout)
		}
		c.MaxKillTimeout = d
	}
	if b.Reserved != nil {
		set(&c.Reserved.CPU, b.Reserved.CPU)
		set(&c.Reserved.Memory, b.Reserved.Memory)
		set(&c.Reserved.Disk, b.Reserved.Disk)
	}
	if b.Drivers != nil {
		set(&c.AllowedDrivers, b.Drivers.Allow)
		set(&c.BlockedDrivers, b.Drivers.Block)
	}
	return nil
}

func (b *pluginBlock) apply(c *Config) error {
	if _, ok := c.Plugins[b.Name]; ok {
		return fmt.Errorf("configuration: plugin %q: configured twice", b.Name)
	}
	p := Plugin{Grant: Grant{Wasm: WasmGrant{Enabled: true}}}
	set(&p.SHA256, b.SHA256)
	if b.Config != nil {
		config, diags := hclvalue.Body(b.Config.Body.(*hclsyntax.Body), nil)
		if diags.HasErrors() {
			return faults(diags)
		}
		p.Config = config
	}
	if g := b.Grant; g != nil && g.FS != nil {
		set(&p.Grant.FS.ReadOnly, g.FS.ReadOnly)
		set(&p.Grant.FS.ReadWrite, g.FS.ReadWrite)
	}
	if g := b.Grant; g != nil && g.Wasm != nil {
		set(&p.Grant.Wasm.Enabled, g.Wasm.Enabled)
		set(&p.Grant.Wasm.Directories, g.Wasm.Directories)
		set(&p.Grant.Wasm.MaxPrograms, g.Wasm.MaxPrograms)
	}
	c.Plugins[b.Name] = p
	return nil
}

// set overwrites a value with one that was given.
func set[T any](to *T, given *T) {
	if given != nil {
		*to = *given
	}
}
