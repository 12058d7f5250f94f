package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/pluginlock"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/trial"
)

type pluginCompileCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginCompileCommand) Synopsis() string { return "Compile plugins before a node needs them" }

// Help implements [subcommand].
func (*pluginCompileCommand) Help() string {
	return `Usage: wasmnode plugin compile [options] FILE|DIR...

  Compiles plugins, or all in a directory, for this machine's processor, and keeps their
  code where a node finds it: it has them in service at once then. None of them runs.
  What is compiled already is not compiled again.

  Without -data-dir it is for "agent -dev" and the commands that try plugins, and kept in
  the user's cache directory. The directory's owner is the one who may run what is in it:
  compile as the user that the node runs as.

Options:

  -data-dir=DIR   For the node with that data directory, which may be running.
  -json           Print JSON.`
}

// maxCompiled bounds the files and directories that are named.
const maxCompiled = 256

// compiledFile is what came of one file, for programs.
type compiledFile struct {
	File   string
	Digest string        `json:",omitempty"` // of the file
	Took   time.Duration // nanoseconds
	Error  string        `json:",omitempty"`
}

// Run implements [subcommand].
func (c *pluginCompileCommand) Run(args []string) int {
	f := c.flags("plugin compile")
	data := f.String("data-dir", "", "")
	if !c.parse(f, args, 1, maxCompiled, c.Help()) {
		return 1
	}
	dir, err := compileDir(*data)
	if err != nil {
		return c.fail(f, err)
	}
	files, err := pluginFiles(f.Args())
	if err != nil {
		return c.fail(f, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(len(files))*compileTime)
	defer cancel()
	all, err := compileFiles(ctx, dir, files)
	if err != nil {
		return c.fail(f, err)
	}
	failed := 0
	rows := [][]string{{"File", "Took", "Digest"}}
	for _, one := range all {
		if one.Error != "" {
			failed++
			c.ui.Error("Error: " + one.File + ": " + one.Error)
			continue
		}
		rows = append(rows, []string{one.File, one.Took.Round(time.Millisecond).String(), one.Digest[:12]})
	}
	if *f.json {
		c.printJSON(all)
	} else if len(rows) > 1 {
		c.table(rows)
		c.ui.Output(fmt.Sprintf("\n%s compiled, in %s", counted(len(all)-failed, "plugin"), dir))
	}
	if failed > 0 {
		return 1
	}
	return 0
}

// compileDir is the directory for compiled code of a data directory's node; empty: of no node's.
func compileDir(data string) (string, error) {
	if data == "" {
		if dir := codeDir(); dir != "" {
			return dir, nil
		}
		return "", errors.New("there is no directory for compiled code that you and nobody else can write to: set XDG_CACHE_HOME to one, or use -data-dir")
	}
	if info, err := os.Stat(data); err != nil {
		return "", err
	} else if !info.IsDir() {
		return "", fmt.Errorf("-data-dir: %s is not a directory", data)
	}
	return filepath.Join(data, "cache"), nil
}

// pluginFiles are the files of these words, each a file or a directory with plugins.
func pluginFiles(words []string) (files []string, err error) {
	for _, word := range words {
		info, err := os.Stat(word)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, word)
			continue
		}
		entries, err := os.ReadDir(word)
		if err != nil {
			return nil, err
		}
		before := len(files)
		for _, e := range entries {
			if pluginlock.IsPluginFile(e.Name()) {
				files = append(files, filepath.Join(word, e.Name()))
			}
		}
		if len(files) == before {
			return nil, fmt.Errorf("%s: there is no plugin, a file called *.wasm, in it", word)
		}
	}
	return files, nil
}

// compileFiles compiles files side by side.
func compileFiles(ctx context.Context, dir string, files []string) ([]compiledFile, error) {
	engine, err := sandbox.Open(sandbox.Config{CacheDir: dir, Logger: hclog.New(&hclog.LoggerOptions{Name: "compile", Level: hclog.Warn, Output: os.Stderr})})
	if err != nil {
		return nil, err
	}
	all := make([]compiledFile, len(files))
	var wg sync.WaitGroup
	turns := make(chan struct{}, 4) // that many files are held in memory
	for i, file := range files {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			all[i] = compileFile(ctx, engine, file)
		})
	}
	wg.Wait()
	return all, engine.Close(context.WithoutCancel(ctx))
}

func compileFile(ctx context.Context, engine *sandbox.Engine, file string) compiledFile {
	began := time.Now()
	c := compiledFile{File: file}
	wasm, err := trial.ReadFile(file)
	if err == nil {
		var spec *host.Spec
		var kept bool
		spec, kept, err = host.Compile(ctx, engine, host.NewSource(wasm), host.Limits{})
		switch {
		case err == nil && !kept:
			err = errors.New("it compiles, but its code could not be kept: see above")
		case err == nil:
			c.Digest = spec.Digest
		}
	}
	c.Took = time.Since(began)
	if err != nil {
		c.Error = firstLine(err)
	}
	return c
}
