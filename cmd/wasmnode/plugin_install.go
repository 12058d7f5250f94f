package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/wasmnode/wasmnode/internal/pluginlock"
	"github.com/wasmnode/wasmnode/internal/pluginregistry"
)

type pluginInstallCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginInstallCommand) Synopsis() string {
	return "Put a plugin from a registry into a plugin directory"
}

// Help implements [subcommand].
func (*pluginInstallCommand) Help() string {
	return `Usage: wasmnode plugin install [options] oci://REGISTRY/REPOSITORY:TAG
       wasmnode plugin install [options] BUNDLE.tar

  Fetches a plugin's file from an OCI registry and puts it into a plugin directory, as
  NAME.wasm by the name that the plugin gives itself. An agent that runs takes it into
  service. Where the directory has a lock, the file is locked, with where it is from: another
  version from that repository takes its place, anything else with -replace only.

  Before that, the file is whole, has the digest that the registry says, and has been loaded
  once as a node would load it, with nothing granted. Otherwise the directory stays as it is.

  Of a bundle that "plugin bundle" has written, all plugins are installed or none. A
  directory that had no plugins has its lock then.

Options:

  -plugin-dir=DIR   The plugin directory. It is required.
  -replace          Put the plugin in the place of one that is from elsewhere, too.
` + registryOptions + `
  -json          Print JSON.`
}

// Run implements [subcommand].
func (c *pluginInstallCommand) Run(args []string) int {
	f := c.flags("plugin install")
	set := registryFlags(f.FlagSet)
	dir, replace := f.String("plugin-dir", "", ""), f.Bool("replace", false, "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	if *dir == "" {
		return c.fail(f, errors.New("where to? Name the plugin directory with -plugin-dir"))
	}
	var installed []pluginlock.Entry
	var err error
	if strings.HasSuffix(f.Arg(0), bundleSuffix) && !strings.HasPrefix(f.Arg(0), pluginregistry.Scheme) {
		installed, err = installBundle(context.Background(), f.Arg(0), *dir)
	} else {
		installed = make([]pluginlock.Entry, 1)
		installed[0], err = installPlugin(context.Background(), set, f.Arg(0), *dir, *replace)
	}
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(installed)
	}
	for i, e := range installed {
		if i > 0 {
			c.ui.Output("")
		}
		c.pairs([][2]string{{"File", e.File}, {"Name", e.Name}, {"Version", e.PluginVersion}, {"SHA-256", e.SHA256}, {"From", e.Source}})
	}
	return 0
}

// installPlugin puts a plugin into a directory, and returns what it is.
func installPlugin(ctx context.Context, set registrySet, from, dir string, replace bool) (e pluginlock.Entry, err error) {
	r, err := pluginregistry.Parse(from)
	if err != nil {
		return e, err
	}
	// What is wrong with the directory is told before anything is fetched.
	if _, err := pluginlock.Files(dir); err != nil {
		return e, err
	}
	if _, err := pluginlock.ReadIfAny(dir); err != nil {
		return e, err
	}
	p, err := set.pull(ctx, r)
	if err != nil {
		return e, err
	}
	if e, err = describeEntry(ctx, "", p.Wasm); err != nil {
		return e, fmt.Errorf("%s: %w", from, err)
	}
	e.File = e.Name + pluginlock.PluginSuffix
	e.SHA256, e.Size, e.Source = p.SHA256, int64(len(p.Wasm)), r.At(p.Digest)
	return e, place(dir, e, p.Wasm, replace)
}

// place puts a plugin's file into a directory, and into its lock if there is one.
func place(dir string, e pluginlock.Entry, wasm []byte, replace bool) error {
	p, err := openPlacement(dir)
	if err != nil {
		return err
	}
	defer p.drop()
	if !replace {
		if err := p.mayReplace(e); err != nil {
			return err
		}
	}
	if err := p.stage(e, wasm); err != nil {
		return err
	}
	return p.commit()
}
