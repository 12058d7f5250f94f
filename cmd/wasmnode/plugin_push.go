package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/pluginregistry"
	"github.com/wasmnode/wasmnode/trial"
)

type pluginPushCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginPushCommand) Synopsis() string { return "Publish a plugin's file in a registry" }

// Help implements [subcommand].
func (*pluginPushCommand) Help() string {
	return `Usage: wasmnode plugin push [options] FILE oci://REGISTRY/REPOSITORY:TAG

  Publishes a plugin's file in an OCI registry, as other WebAssembly is, under a tag, and
  prints the reference by its digest, which is never another file. What "plugin annotate"
  wrote into it is what the registry shows. Only a plugin is published.

Options:

` + registryOptions + `
  -json          Print JSON.`
}

// pushed is what was published, for programs.
type pushed struct{ Reference, SHA256 string }

// Run implements [subcommand].
func (c *pluginPushCommand) Run(args []string) int {
	f := c.flags("plugin push")
	set := registryFlags(f.FlagSet)
	if !c.parse(f, args, 2, 2, c.Help()) {
		return 1
	}
	out, err := pushPlugin(set, f.Arg(0), f.Arg(1))
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(out)
	}
	c.ui.Output(out.Reference)
	return 0
}

// pushPlugin publishes a file.
func pushPlugin(set registrySet, file, to string) (*pushed, error) {
	r, err := pluginregistry.Parse(to)
	if err != nil {
		return nil, err
	}
	wasm, err := trial.ReadFile(file)
	if err != nil {
		return nil, err
	}
	spec, err := host.Inspect(wasm, len(wasm))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	a := pluginregistry.Annotations{Title: filepath.Base(file)}
	if m := spec.Metadata; m != nil {
		a.Version, a.License, a.Source = m.Version, m.License, m.Source
		if m.Name != "" {
			a.Title = m.Name + ".wasm"
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), *set.timeout)
	defer cancel()
	digest, err := r.Push(ctx, set.config(), wasm, a)
	return &pushed{r.At(digest), spec.Digest}, err
}
