package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/pluginlock"
	"github.com/wasmnode/wasmnode/trial"
)

type pluginLockCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginLockCommand) Synopsis() string {
	return "Write down which plugins belong in a directory"
}

// Help implements [subcommand].
func (*pluginLockCommand) Help() string {
	return `Usage: wasmnode plugin lock [options] DIR

  Writes DIR/plugins.lock: each plugin's file in the directory with its name, its digest
  and its size. From then on an agent takes no other content from that directory, and
  says in "plugin status" which files it refuses. An agent that runs notices within a
  moment. Without the file, it takes every plugin.

  What is in the lock already with the same digest stays as it is; each other file is
  loaded once, as a node would load it, and asked what it is: nothing is granted to it. If
  one is no plugin, nothing is written.

Options:

` + waitOption + `
  -json          Print the lock.`
}

// Run implements [subcommand].
func (c *pluginLockCommand) Run(args []string) int {
	f := c.flags("plugin lock")
	wait := waitFlag(f.FlagSet)
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	lock, err := writeLock(f.Arg(0), *wait)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(lock)
	}
	rows := [][]string{{"File", "Name", "Version", "SHA-256", "Size"}}
	for _, e := range lock.Plugins {
		rows = append(rows, []string{e.File, e.Name, e.PluginVersion, f.short(e.SHA256), strconv.FormatInt(e.Size, 10)})
	}
	c.table(rows)
	return 0
}

// waitFlag adds the option of a command that changes a plugin directory.
func waitFlag(f *flag.FlagSet) *time.Duration { return f.Duration("wait", 10*time.Second, "") }

// waitOption documents it.
const waitOption = `  -wait=10s      How long to wait for another command that changes the directory.`

// writeLock writes the lock of what is in a directory now.
func writeLock(dir string, wait time.Duration) (*pluginlock.Lock, error) {
	ctx, stop := interruptible()
	defer stop()
	release, err := hold(ctx, dir, wait)
	if err != nil {
		return nil, orInterrupted(ctx, err)
	}
	defer release()
	lock, err := lockDirectory(ctx, dir)
	if err != nil {
		return nil, orInterrupted(ctx, err)
	}
	return lock, lock.Write(dir)
}

// lockDirectory returns the lock of what is in a directory now.
func lockDirectory(ctx context.Context, dir string) (*pluginlock.Lock, error) {
	before, err := pluginlock.ReadIfAny(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: mend it, or remove it", err)
	}
	names, err := pluginlock.Files(dir)
	if err != nil {
		return nil, err
	}
	var entries []pluginlock.Entry
	for _, name := range names {
		wasm, err := trial.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		src := host.NewSource(wasm)
		e, known := before.Entry(name)
		if !known || e.SHA256 != src.Digest() {
			if e, err = describeEntry(ctx, name, wasm); err != nil {
				return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
			}
		}
		e.SHA256, e.Size = src.Digest(), int64(len(wasm))
		entries = append(entries, e)
	}
	return pluginlock.New(entries), nil
}

// describeEntry loads a plugin, as a node would, for it to say what it is called.
func describeEntry(ctx context.Context, file string, wasm []byte) (pluginlock.Entry, error) {
	t, err := trial.Open(ctx, wasm, trial.Config{Logger: hclog.NewNullLogger(), CacheDir: codeDir(), Version: agent.Version})
	if err != nil {
		return pluginlock.Entry{}, err
	}
	defer t.Close() //nolint:errcheck,contextcheck // it has started nothing, and closing is not given up
	d := t.Plugin().Description()
	return pluginlock.Entry{File: file, Name: harmless(d.GetName()), PluginVersion: harmless(d.GetVersion())}, nil
}
