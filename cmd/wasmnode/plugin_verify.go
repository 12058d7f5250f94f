package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/wasmnode/wasmnode/internal/pluginlock"
)

type pluginVerifyCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginVerifyCommand) Synopsis() string {
	return "Compare a directory of plugins with its lock"
}

// Help implements [subcommand].
func (*pluginVerifyCommand) Help() string {
	return `Usage: wasmnode plugin verify [options] DIR

  Compares the plugins' files in a directory with DIR/plugins.lock. It prints a line for
  each that is missing, changed, or not in the lock. The exit code is 0 if there is none,
  else 1.

Options:

  -json   Print JSON.`
}

// Run implements [subcommand].
func (c *pluginVerifyCommand) Run(args []string) int {
	f := c.flags("plugin verify")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	dir := f.Arg(0)
	lock, err := pluginlock.Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return c.fail(f, fmt.Errorf("%s has no lock: write it with: wasmnode plugin lock %s", dir, shellWord(dir)))
	}
	if err != nil {
		return c.fail(f, err)
	}
	differences, err := lock.Verify(dir)
	if err != nil {
		return c.fail(f, err)
	}
	code := min(len(differences), 1)
	if *f.json {
		if differences == nil {
			differences = []pluginlock.Difference{}
		}
		return max(code, c.printJSON(differences))
	}
	for _, d := range differences {
		c.ui.Output(harmless(d.File) + ": " + d.What)
	}
	if code == 0 {
		c.ui.Output(fmt.Sprintf("%d plugins are what the lock says", len(lock.Plugins)))
	}
	return code
}
