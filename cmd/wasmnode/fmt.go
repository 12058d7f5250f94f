package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

type fmtCommand struct{ meta }

// Synopsis implements [subcommand].
func (*fmtCommand) Synopsis() string { return "Lay out job files and configuration as everybody does" }

// Help implements [subcommand].
func (*fmtCommand) Help() string {
	return `Usage: wasmnode fmt [options] [FILE|DIR...]

  Lays out files that end in .hcl or .nomad, those of the working directory if none is
  named, and names those that it changed. "-" is standard input, which is printed.

Options:

  -check        Change nothing: the exit code is 1 if something would be changed.
  -list=BOOL    Name the files; true.
  -recursive    Go into directories of directories.
  -write=BOOL   Change the files; true.`
}

// layout is how files are to be laid out.
type layout struct{ check, list, recursive, write bool }

// Run implements [subcommand].
func (c *fmtCommand) Run(args []string) int {
	f := c.flags("fmt")
	var l layout
	f.BoolVar(&l.check, "check", false, "")
	f.BoolVar(&l.list, "list", true, "")
	f.BoolVar(&l.recursive, "recursive", false, "")
	f.BoolVar(&l.write, "write", true, "")
	if !c.parse(f, args, 0, maxConfigPaths, c.Help()) {
		return 1
	}
	paths := f.Args()
	if len(paths) == 0 {
		paths = []string{"."}
	}
	code := 0
	for _, path := range paths {
		files, err := l.files(path)
		if err != nil {
			code = c.fail(f, err)
		}
		for _, file := range files {
			changed, err := c.lay(file, l)
			if err != nil {
				code = c.fail(f, err)
			}
			if changed && l.check {
				code = 1
			}
		}
	}
	return code
}

// files are those to lay out of what a path names.
func (l layout) files(path string) (files []string, err error) {
	if path == stdin {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("No file or directory at %s", path) //nolint:staticcheck // as in Nomad
	case info.IsDir():
	case laidOut(path):
		return []string{path}, nil
	default:
		return nil, fmt.Errorf("%s: only .nomad and .hcl files can be laid out", path)
	}
	err = filepath.WalkDir(path, func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && file != path && !l.recursive:
			return fs.SkipDir
		case e.Type().IsRegular() && laidOut(file):
			files = append(files, file)
		}
		return nil
	})
	return files, err
}

func laidOut(path string) bool {
	return slices.Contains([]string{".hcl", ".nomad"}, filepath.Ext(path))
}

// stdin stands for standard input.
const stdin = "-"

// lay lays out a file, and reports whether that changes it.
func (c *fmtCommand) lay(path string, l layout) (changed bool, err error) {
	var was []byte
	if path == stdin {
		was, err = io.ReadAll(os.Stdin)
	} else {
		was, err = os.ReadFile(path)
	}
	if err != nil {
		return false, err
	}
	if _, diags := hclsyntax.ParseConfig(was, path, hcl.InitialPos); diags.HasErrors() {
		return false, diags
	}
	is := hclwrite.Format(was)
	changed = !bytes.Equal(was, is)
	if path == stdin {
		_, err = c.ui.out.Write(is)
		return changed, err
	}
	if !changed {
		return false, nil
	}
	if l.list {
		c.ui.Output(path)
	}
	if l.write && !l.check {
		return true, os.WriteFile(path, is, 0) // it is there, and keeps its mode
	}
	return true, nil
}
