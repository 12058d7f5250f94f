package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/pluginlock"
)

// bundleSuffix is how the names of bundles end.
const bundleSuffix = ".tar"

type pluginBundleCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginBundleCommand) Synopsis() string {
	return "Write a directory of plugins into one file"
}

// Help implements [subcommand].
func (*pluginBundleCommand) Help() string {
	return `Usage: wasmnode plugin bundle [options] DIR

  Writes the plugins of a directory that has a lock, and the lock, into one tar archive, to
  be carried to a machine without a network and installed there with "plugin install". A
  directory that differs from its lock is not bundled, nor one with a file that is not called
  after its plugin. The same directory gives the same bundle. Signatures go with their files.

Options:

  -o=FILE   The file to write. Without it, plugins.tar, here.
  -json     Print JSON.`
}

// Run implements [subcommand].
func (c *pluginBundleCommand) Run(args []string) int {
	f := c.flags("plugin bundle")
	out := f.String("o", "plugins"+bundleSuffix, "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	lock, err := bundle(f.Arg(0), *out)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(lock)
	}
	c.ui.Output(counted(len(lock.Plugins), "plugin") + " in " + *out)
	return 0
}

// bundle writes a bundle of a directory.
func bundle(dir, out string) (*pluginlock.Lock, error) {
	lock, err := pluginlock.Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no lock: write it with: wasmnode plugin lock %s", dir, shellWord(dir))
	}
	if err != nil {
		return nil, err
	}
	differences, err := lock.Verify(dir)
	if err != nil {
		return nil, err
	}
	if len(differences) > 0 {
		d := differences[0]
		return nil, fmt.Errorf("%s differs from its lock, %s is %s: see wasmnode plugin verify", dir, harmless(d.File), d.What)
	}
	for _, e := range lock.Plugins {
		if err := calledAfter(e); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, harmless(e.File)), err)
		}
	}
	to, name := filepath.Split(out)
	s, err := pluginlock.StageFrom(cmp.Or(to, "."), name, func(w io.Writer) error {
		return lock.WriteBundle(w, dir, int64(host.DefaultLimits().FileBytes))
	})
	if err != nil {
		return nil, err
	}
	defer s.Drop()
	return lock, s.Commit()
}

// bundle puts all plugins of a bundle into the directory, or none.
func (i *installation) bundle(ctx context.Context, file string, by *vouched) (all []installed, err error) {
	from, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	defer context.AfterFunc(ctx, func() { from.Close() })() // which ends a wait for more of a pipe
	p, err := i.openPlacement(ctx, i.dir, *i.wait)
	if err != nil {
		return nil, err
	}
	defer p.drop()
	there, err := pluginlock.Files(i.dir)
	if err != nil {
		return nil, err
	}
	if p.lock == nil && len(there) == 0 {
		p.lock = pluginlock.New(nil)
	}
	_, err = pluginlock.ReadBundle(from, int64(host.DefaultLimits().FileBytes), func(b pluginlock.Bundled) error {
		if err := acceptBundled(ctx, b, by); err != nil {
			return fmt.Errorf("%s: %w", b.File, err)
		}
		if !i.replace {
			if err := p.mayReplace(b.Entry); err != nil {
				return err
			}
		}
		all = append(all, installed{b.Entry, by.by})
		return p.stage(b.Entry, b.Content, b.Signature)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return all, p.commit(ctx)
}

// acceptBundled refuses a plugin of a bundle that is not what its lock says, or is not signed
// as it has to be. Nothing of one that is not signed so runs.
func acceptBundled(ctx context.Context, b pluginlock.Bundled, by *vouched) error {
	if err := by.verifyText(b.Signature, b.SHA256); err != nil {
		return err
	}
	d, err := describeEntry(ctx, b.File, b.Content)
	switch {
	case err != nil:
		return err
	case d.Name != b.Name:
		return fmt.Errorf("it calls itself %q, its lock says %q", d.Name, b.Name)
	}
	return calledAfter(b.Entry)
}

// calledAfter refuses a file that is not called after its plugin: installed, it would stand
// beside the file that is, and want its name.
func calledAfter(e pluginlock.Entry) error {
	if want := e.Name + pluginlock.PluginSuffix; e.File != want {
		return fmt.Errorf("it calls itself %q: in a bundle its file has to be %s", e.Name, want)
	}
	return nil
}
