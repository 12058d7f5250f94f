package trial

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/configschema"
	"github.com/wasmnode/wasmnode/internal/regularfile"
)

// ReadFile reads a plugin's file, which has at most as many bytes as a node would read.
func ReadFile(path string) ([]byte, error) {
	return regularfile.Read(path, int64(host.DefaultLimits().FileBytes))
}

// Directory is a directory of plugins' files, of which each is loaded when it may be a driver
// that is asked for, to describe itself: nothing is granted to it. One goroutine at a time uses
// it; it has nothing to be closed.
type Directory struct {
	path    string
	cfg     Config
	unread  []string // names of files
	schemas map[string]*configschema.Schema
	broken  map[string]error // why a file is no plugin, by its name
}

// OpenDirectory looks for files called *.wasm.
func OpenDirectory(path string, cfg Config) (*Directory, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	d := &Directory{path: path, cfg: cfg, schemas: map[string]*configschema.Schema{}, broken: map[string]error{}}
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".wasm" {
			d.unread = append(d.unread, e.Name())
		}
	}
	return d, nil
}

// CheckDriverConfig returns what a driver refuses of a task's config block, a line each, as a
// node does. The error says that no file is that driver.
func (d *Directory) CheckDriverConfig(ctx context.Context, driver string, config map[string]any) (faults []string, err error) {
	schema := d.schema(ctx, driver)
	if schema == nil {
		if err := d.broken[driver+".wasm"]; err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("no file in %s is the driver %q", d.path, driver)
	}
	_, err = schema.Check("config", config)
	return configschema.Lines(err), nil
}

// schema is that of a driver's tasks; nil: there is no such driver. As in a plugin directory, the
// file that has the driver's name is meant before others that say that they are it.
func (d *Directory) schema(ctx context.Context, driver string) *configschema.Schema {
	if i := slices.Index(d.unread, driver+".wasm"); i >= 0 {
		d.read(ctx, i)
	}
	for d.schemas[driver] == nil && len(d.unread) > 0 && ctx.Err() == nil {
		d.read(ctx, 0)
	}
	return d.schemas[driver]
}

// read loads the i-th of the files that have not been.
func (d *Directory) read(ctx context.Context, i int) {
	file := d.unread[i]
	d.unread = slices.Delete(d.unread, i, i+1)
	name, schema, err := d.load(ctx, filepath.Join(d.path, file))
	switch {
	case err != nil:
		d.broken[file] = err
	case schema != nil && (d.schemas[name] == nil || file == name+".wasm"):
		d.schemas[name] = schema
	}
}

// load has a plugin describe itself. A device plugin has no schema.
func (d *Directory) load(ctx context.Context, path string) (name string, schema *configschema.Schema, err error) {
	wasm, err := ReadFile(path)
	if err != nil {
		return "", nil, err
	}
	if spec, err := host.Inspect(wasm, len(wasm)); err == nil && spec.Kind != host.KindDriver {
		return "", nil, nil
	}
	described, err := Describe(ctx, wasm, d.cfg)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	schema, err = configschema.Compile(described.GetTaskConfigSchema())
	if err != nil {
		return "", nil, fmt.Errorf("%s: describe: task_config_%w", path, err)
	}
	return described.GetName(), schema, nil
}

// Describe loads a plugin and returns what it says of itself; of a device plugin that is its name,
// its version and the schema of its configuration.
func Describe(ctx context.Context, wasm []byte, cfg Config) (*wasmnodev1.DriverDescribeResponse, error) {
	t, err := Open(ctx, wasm, cfg)
	if err != nil {
		return nil, err
	}
	defer t.Close() //nolint:errcheck,contextcheck // it has started nothing, and closing is not given up
	return t.plugin.Description(), nil
}
