package main

import (
	"io"
	"os"

	"github.com/dustin/go-humanize"
)

type allocFSCommand struct{ meta }

// Synopsis implements [subcommand].
func (*allocFSCommand) Synopsis() string { return "List and print the files of an allocation" }

// Help implements [subcommand].
func (*allocFSCommand) Help() string {
	return `Usage: wasmnode alloc fs [options] ALLOC [PATH]

  Lists a directory of an allocation, or prints a file. The secrets of tasks are not
  shown.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *allocFSCommand) Run(args []string) int {
	f := c.flags("alloc fs")
	if !c.parse(f, args, 1, 2, c.Help()) {
		return 1
	}
	path := "/"
	if f.NArg() == 2 {
		path = f.Arg(1)
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	alloc, err := findAllocation(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	info, _, err := client.AllocFS().Stat(alloc, path, nil)
	if err != nil {
		return c.fail(f, err)
	}
	if !info.IsDir {
		r, err := client.AllocFS().Cat(alloc, path, nil)
		if err != nil {
			return c.fail(f, err)
		}
		defer r.Close()
		if _, err := io.Copy(os.Stdout, r); err != nil {
			return c.fail(f, err)
		}
		return 0
	}
	files, _, err := client.AllocFS().List(alloc, path, nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(files)
	}
	rows := [][]string{{"Mode", "Size", "Modified Time", "Name"}}
	for _, file := range files {
		name := file.Name
		if file.IsDir {
			name += "/"
		}
		rows = append(rows, []string{file.FileMode, humanize.IBytes(uint64(file.Size)), timeOrNA(file.ModTime), name})
	}
	c.table(rows)
	return 0
}
