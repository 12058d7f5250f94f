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
  directory that differs from its lock is not bundled. The same directory gives the same
  bundle.

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
	c.ui.Output(fmt.Sprintf("%d plugins in %s", len(lock.Plugins), *out))
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

// installBundle puts all plugins of a bundle into a directory, or none.
func installBundle(ctx context.Context, file, dir string) ([]pluginlock.Entry, error) {
	from, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	p, err := openPlacement(dir)
	if err != nil {
		return nil, err
	}
	defer p.drop()
	there, err := pluginlock.Files(dir)
	if err != nil {
		return nil, err
	}
	if p.lock == nil && len(there) == 0 {
		p.lock = pluginlock.New(nil)
	}
	lock, err := pluginlock.ReadBundle(from, int64(host.DefaultLimits().FileBytes), func(e pluginlock.Entry, wasm []byte) error {
		d, err := describeEntry(ctx, e.File, wasm)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", e.File, err)
		case d.Name != e.Name:
			return fmt.Errorf("%s calls itself %q, its lock says %q", e.File, d.Name, e.Name)
		}
		return p.stage(e, wasm)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return lock.Plugins, p.commit()
}
