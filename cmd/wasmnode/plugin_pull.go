package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/wasmnode/wasmnode/internal/pluginlock"
	"github.com/wasmnode/wasmnode/internal/pluginregistry"
	"github.com/wasmnode/wasmnode/internal/pluginsign"
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

  Signatures of it that the registry has are kept beside it, in FILE.sig. With -key, it is
  written only if one of the keys has signed it.

Options:

  -key=KEY       A public key that is trusted. It may be given more than once.
  -o=FILE        The file to write. Without it, the last word of the repository and .wasm,
                 here.
` + registryOptions + `
  -json          Print JSON.`
}

// pulled is what was fetched, for programs.
type pulled struct{ File, SHA256, Reference, SignedBy string }

// Run implements [subcommand].
func (c *pluginPullCommand) Run(args []string) int {
	f := c.flags("plugin pull")
	set, trusted := registryFlags(f.FlagSet), keyFlags(f.FlagSet)
	out := f.String("o", "", "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	result, err := pullPlugin(set, trusted, f.Arg(0), *out)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(result)
	}
	c.pairs([][2]string{{"File", result.File}, {"SHA-256", result.SHA256}, {"From", result.Reference}, {"Signed by", result.SignedBy}})
	return 0
}

// pullPlugin fetches a plugin's file, and its signature beside it.
func pullPlugin(set registrySet, trusted *keySet, from, out string) (*pulled, error) {
	ctx, stop := interruptible()
	defer stop()
	r, err := pluginregistry.Parse(from)
	if err != nil {
		return nil, err
	}
	by, err := trusted.read()
	if err != nil {
		return nil, err
	}
	p, signature, err := set.pullSigned(ctx, r, by)
	if err != nil {
		return nil, orInterrupted(ctx, err)
	}
	file := cmp.Or(out, r.Name()+pluginlock.PluginSuffix)
	dir, name := filepath.Split(file)
	if err := pluginlock.WriteFile(cmp.Or(dir, "."), name, p.Wasm); err != nil {
		return nil, err
	}
	return &pulled{file, p.SHA256, r.At(p.Digest), by.by}, writeSignature(cmp.Or(dir, "."), name, signature)
}

// pullSigned fetches a plugin's file, with what its signature's file is to have in it, once it
// is one that a trusted key has signed, if any is trusted.
func (s registrySet) pullSigned(ctx context.Context, r pluginregistry.Reference, by *vouched) (*pluginregistry.Pulled, []byte, error) {
	p, err := s.pull(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	signature, err := s.signature(ctx, r, p)
	if err != nil {
		return nil, nil, err
	}
	if err := by.verify(signature, p.SHA256); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", r.At(p.Digest), err)
	}
	text, err := textOf(signature)
	return p, text, err
}

// writeSignature writes the signature of a plugin's file beside it. Where there is none, that
// of the file before is removed.
func writeSignature(dir, file string, text []byte) error {
	if text != nil {
		return pluginlock.WriteFile(dir, file+pluginsign.Suffix, text)
	}
	if err := os.Remove(filepath.Join(dir, file+pluginsign.Suffix)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
