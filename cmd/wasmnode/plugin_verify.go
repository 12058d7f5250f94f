package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/pluginlock"
	"github.com/wasmnode/wasmnode/internal/pluginregistry"
	"github.com/wasmnode/wasmnode/trial"
)

type pluginVerifyCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginVerifyCommand) Synopsis() string {
	return "Compare a directory of plugins with its lock, and verify who signed plugins"
}

// Help implements [subcommand].
func (*pluginVerifyCommand) Help() string {
	return `Usage: wasmnode plugin verify [options] DIR
       wasmnode plugin verify -key=KEY [options] FILE
       wasmnode plugin verify -key=KEY [options] oci://REGISTRY/REPOSITORY:TAG

  Compares the plugins' files in a directory with DIR/plugins.lock. It prints a line for
  each that is missing, changed, or not in the lock. The exit code is 0 if there is none,
  else 1.

  With -key, it verifies that each plugin in the directory, the file, or what is in the
  registry is signed with one of the keys, and says with which. A directory needs no lock
  then. Nothing of a plugin runs.

Options:

  -key=KEY       A public key that is trusted. It may be given more than once.
` + registryOptions + `
  -json          Print JSON.`
}

// Run implements [subcommand].
func (c *pluginVerifyCommand) Run(args []string) int {
	f := c.flags("plugin verify")
	set, trusted := registryFlags(f.FlagSet), keyFlags(f.FlagSet)
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	what := f.Arg(0)
	by, err := trusted.read()
	if err != nil {
		return c.fail(f, err)
	}
	if info, err := os.Stat(what); err == nil && info.IsDir() {
		if other := given(f.FlagSet, "timeout", "plain-http"); other != "" {
			return c.fail(f, fmt.Errorf("-%s is for a registry, and %s is a directory", other, what))
		}
		return c.directory(f, what, by)
	}
	out, err := verifyPlugin(set, what, by)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(out)
	}
	c.ui.Output(fmt.Sprintf("%s is signed with %s", out.Signed, out.SignedBy))
	return 0
}

// verified is who has signed what, for programs.
type verified struct{ Signed, SHA256, SignedBy string }

// verifyPlugin verifies who has signed a file, or what is in a registry.
func verifyPlugin(set registrySet, what string, by *vouched) (*verified, error) {
	if len(by.keys) == 0 {
		return nil, errors.New("whose signature? Name the public key with -key")
	}
	if strings.HasPrefix(what, pluginregistry.Scheme) {
		ctx, stop := interruptible()
		defer stop()
		r, err := pluginregistry.Parse(what)
		if err != nil {
			return nil, err
		}
		p, _, err := set.pullSigned(ctx, r, by)
		if err != nil {
			return nil, orInterrupted(ctx, err)
		}
		return &verified{r.At(p.Digest), p.SHA256, by.by}, nil
	}
	wasm, err := trial.ReadFile(what)
	if err != nil {
		return nil, err
	}
	digest := host.NewSource(wasm).Digest()
	if err := by.verifyBeside(what, digest); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return &verified{what, digest, by.by}, nil
}

// directory verifies a directory, and prints what differs.
func (c *pluginVerifyCommand) directory(f *flags, dir string, by *vouched) int {
	lock, err := pluginlock.Read(dir)
	var differences []pluginlock.Difference
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(by.keys) == 0:
		return c.fail(f, fmt.Errorf("%s has no lock: write it with: wasmnode plugin lock %s", dir, shellWord(dir)))
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return c.fail(f, err)
	default:
		if differences, err = lock.Verify(dir); err != nil {
			return c.fail(f, err)
		}
	}
	signed, unsigned, err := verifyFiles(dir, by)
	if err != nil {
		return c.fail(f, err)
	}
	differences = append(differences, unsigned...)
	if len(by.keys) > 0 && len(signed)+len(differences) == 0 {
		return c.fail(f, fmt.Errorf("there is no plugin in %s", dir))
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
	for _, d := range signed {
		c.ui.Output(harmless(d.File) + ": " + d.What)
	}
	if code == 0 && lock != nil {
		c.ui.Output(counted(len(lock.Plugins), "plugin") + " as the lock says")
	}
	return code
}

// verifyFiles verifies who has signed the plugins of a directory, if there are keys to do it
// with.
func verifyFiles(dir string, by *vouched) (signed, unsigned []pluginlock.Difference, err error) {
	if len(by.keys) == 0 {
		return nil, nil, nil
	}
	names, err := pluginlock.Files(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		wasm, err := trial.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		if err := by.verifyBeside(path, host.NewSource(wasm).Digest()); err != nil {
			unsigned = append(unsigned, pluginlock.Difference{File: name, What: err.Error()})
			continue
		}
		signed = append(signed, pluginlock.Difference{File: name, What: "signed with " + by.by})
	}
	return signed, unsigned, nil
}
