package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/pluginlock"
	"github.com/wasmnode/wasmnode/trial"
)

type pluginAnnotateCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginAnnotateCommand) Synopsis() string {
	return "Write into a plugin's file what it is"
}

// Help implements [subcommand].
func (*pluginAnnotateCommand) Help() string {
	return `Usage: wasmnode plugin annotate [options] FILE

  Writes into a plugin's file, for "plugin inspect" and for registries, what it is: its
  name and version, as the plugin describes itself, and what is given here. Nothing else
  in the file changes but its digest, and the same file with the same options is the same
  again. What is not given stays as it is.

Options:

  -license=TEXT   Its licence, such as MPL-2.0.
  -source=TEXT    Where its source is.
  -min-abi=1.0    The version of the plugin ABI that it needs: a node that has not got it
                  refuses the file.
  -o=FILE         The file to write. Without it, the same.
  -json           Print JSON.`
}

// Run implements [subcommand].
func (c *pluginAnnotateCommand) Run(args []string) int {
	f := c.flags("plugin annotate")
	var given host.Metadata
	f.StringVar(&given.License, "license", "", "")
	f.StringVar(&given.Source, "source", "", "")
	f.StringVar(&given.MinABI, "min-abi", "", "")
	out := f.String("o", "", "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	m, err := annotate(context.Background(), f.Arg(0), cmp.Or(*out, f.Arg(0)), given)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(m)
	}
	c.pairs([][2]string{{"Name", m.Name}, {"Version", m.Version}, {"License", m.License}, {"Source", m.Source}, {"Needs ABI", m.MinABI}})
	return 0
}

// annotate writes a file with metadata, and returns that.
func annotate(ctx context.Context, file, out string, m host.Metadata) (*host.Metadata, error) {
	wasm, err := trial.ReadFile(file)
	if err != nil {
		return nil, err
	}
	// What it says of itself now may be wrong, which must not keep it from being mended.
	plain, err := host.Annotate(wasm, host.Metadata{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if spec, err := host.Inspect(wasm, len(wasm)); err == nil && spec.Metadata != nil {
		m.License = cmp.Or(m.License, spec.Metadata.License)
		m.Source = cmp.Or(m.Source, spec.Metadata.Source)
		m.MinABI = cmp.Or(m.MinABI, spec.Metadata.MinABI)
	}
	e, err := describeEntry(ctx, file, plain)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	m.Name, m.Version = e.Name, e.PluginVersion
	annotated, err := host.Annotate(wasm, m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	dir, name := filepath.Split(out)
	return &m, pluginlock.WriteFile(cmp.Or(dir, "."), name, annotated)
}
