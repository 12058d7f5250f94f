package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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

  Signatures are kept beside the file, in NAME.wasm.sig, where an agent verifies them. With
  -key, nothing is installed that none of the keys has signed.

Options:

  -plugin-dir=DIR   The plugin directory. It is required.
  -replace          Put the plugin in the place of one that is from elsewhere, too.
  -key=KEY          A public key that is trusted. It may be given more than once.
` + waitOption + `
` + registryOptions + `
  -json          Print JSON.`
}

// Run implements [subcommand].
func (c *pluginInstallCommand) Run(args []string) int {
	f := c.flags("plugin install")
	i := &installation{meta: c.meta, registrySet: registryFlags(f.FlagSet), trusted: keyFlags(f.FlagSet), wait: waitFlag(f.FlagSet)}
	f.StringVar(&i.dir, "plugin-dir", "", "")
	f.BoolVar(&i.replace, "replace", false, "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	if i.dir == "" {
		return c.fail(f, errors.New("where to? Name the plugin directory with -plugin-dir"))
	}
	all, err := i.install(f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(all)
	}
	for i, e := range all {
		if i > 0 {
			c.ui.Output("")
		}
		c.pairs([][2]string{{"File", e.File}, {"Name", e.Name}, {"Version", e.PluginVersion}, {"SHA-256", e.SHA256}, {"From", e.Source}, {"Signed by", e.SignedBy}})
	}
	return 0
}

// installed is a plugin that was put into a directory, for programs.
type installed struct {
	pluginlock.Entry
	SignedBy string `json:"signed_by"`
}

// installation is what somebody wants to be installed, and how.
type installation struct {
	meta
	registrySet
	trusted *keySet
	wait    *time.Duration
	dir     string
	replace bool
}

// install puts what a reference or a bundle's name is of into the directory, and returns what
// that is.
func (i *installation) install(from string) (all []installed, err error) {
	ctx, stop := interruptible()
	defer stop()
	by, err := i.trusted.read()
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(from, bundleSuffix) && !strings.HasPrefix(from, pluginregistry.Scheme) {
		all, err = i.bundle(ctx, from, by)
	} else {
		all = make([]installed, 1)
		all[0], err = i.reference(ctx, from, by)
	}
	return all, orInterrupted(ctx, err)
}

// reference puts a plugin of a registry into the directory.
func (i *installation) reference(ctx context.Context, from string, by *vouched) (e installed, err error) {
	r, err := pluginregistry.Parse(from)
	if err != nil {
		return e, err
	}
	// What is wrong with the directory is told before anything is fetched.
	if _, err := pluginlock.Files(i.dir); err != nil {
		return e, err
	}
	if _, err := pluginlock.ReadIfAny(i.dir); err != nil {
		return e, err
	}
	p, signature, err := i.pullSigned(ctx, r, by)
	if err != nil {
		return e, err
	}
	if e.Entry, err = describeEntry(ctx, "", p.Wasm); err != nil {
		return e, fmt.Errorf("%s: %w", from, err)
	}
	e.File = e.Name + pluginlock.PluginSuffix
	e.SHA256, e.Size, e.Source, e.SignedBy = p.SHA256, int64(len(p.Wasm)), r.At(p.Digest), by.by
	return e, i.place(ctx, e.Entry, p.Wasm, signature)
}

// place puts a plugin's file into the directory, and into its lock if there is one.
func (i *installation) place(ctx context.Context, e pluginlock.Entry, wasm, signature []byte) error {
	p, err := i.openPlacement(ctx, i.dir, *i.wait)
	if err != nil {
		return err
	}
	defer p.drop()
	if !i.replace {
		if err := p.mayReplace(e); err != nil {
			return err
		}
	}
	if err := p.stage(e, wasm, signature); err != nil {
		return err
	}
	return p.commit(ctx)
}
