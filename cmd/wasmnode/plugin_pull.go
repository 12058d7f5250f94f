package main

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/wasmnode/wasmnode/internal/pluginlock"
	"github.com/wasmnode/wasmnode/internal/pluginregistry"
)

type pluginPullCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginPullCommand) Synopsis() string { return "Fetch a plugin's file from a registry" }

// Help implements [subcommand].
func (*pluginPullCommand) Help() string {
	return `Usage: wasmnode plugin pull [options] oci://REGISTRY/REPOSITORY:TAG

  Fetches a plugin's file from an OCI registry. It is written when it is whole, has the
  digest that the registry says, and is a plugin; nothing of it runs. With @sha256:DIGEST
  in the place of :TAG it is never another file.

Options:

  -o=FILE        The file to write. Without it, the last word of the repository and .wasm,
                 here.
` + registryOptions + `
  -json          Print JSON.`
}

// pulled is what was fetched, for programs.
type pulled struct{ File, SHA256, Reference string }

// Run implements [subcommand].
func (c *pluginPullCommand) Run(args []string) int {
	f := c.flags("plugin pull")
	set := registryFlags(f.FlagSet)
	out := f.String("o", "", "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	r, err := pluginregistry.Parse(f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	p, err := set.pull(context.Background(), r)
	if err != nil {
		return c.fail(f, err)
	}
	file := cmp.Or(*out, r.Name()+pluginlock.PluginSuffix)
	dir, name := filepath.Split(file)
	if err := pluginlock.WriteFile(cmp.Or(dir, "."), name, p.Wasm); err != nil {
		return c.fail(f, err)
	}
	result := pulled{file, p.SHA256, r.At(p.Digest)}
	if *f.json {
		return c.printJSON(result)
	}
	c.pairs([][2]string{{"File", result.File}, {"SHA-256", result.SHA256}, {"From", result.Reference}})
	return 0
}
