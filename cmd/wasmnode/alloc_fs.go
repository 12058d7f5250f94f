package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/signal"
	"strconv"

	"github.com/dustin/go-humanize"
	nomad "github.com/hashicorp/nomad/api"
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

  -stat          Show what PATH is, and not what is in it.
  -H             Sizes in bytes.
  -f             Print what is added to the file, too, until it is removed or the command
                 is interrupted.
  -tail          Begin near the end of the file.
  -n=N           With -tail: the last N lines; 10.
  -c=N           With -tail: the last N bytes.` + pickOptions + commonOptions
}

// fileView is how a file is shown.
type fileView struct {
	stat, machine, follow, tail bool
	lines, bytes                int64
}

// Run implements [subcommand].
func (c *allocFSCommand) Run(args []string) int {
	f := c.flags("alloc fs")
	var v fileView
	f.BoolVar(&v.stat, "stat", false, "")
	f.BoolVar(&v.machine, "H", false, "")
	f.BoolVar(&v.follow, "f", false, "")
	f.BoolVar(&v.tail, "tail", false, "")
	f.Int64Var(&v.lines, "n", 10, "")
	f.Int64Var(&v.bytes, "c", 0, "")
	var pick allocationPick
	pick.bind(f)
	client := c.connect(f, args, 1, 2, c.Help())
	if client == nil {
		return 1
	}
	alloc, err := pick.find(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	path := cmp.Or(f.Arg(1), "/")
	info, _, err := client.AllocFS().Stat(alloc, path, nil)
	switch {
	case err != nil:
		return c.fail(f, err)
	case v.stat:
		return c.list(f, []*nomad.AllocFileInfo{info}, v.machine)
	case !info.IsDir:
		if err := v.print(client, alloc, path); err != nil {
			return c.fail(f, err)
		}
		return 0
	}
	files, _, err := client.AllocFS().List(alloc, path, nil)
	if err != nil {
		return c.fail(f, err)
	}
	return c.list(f, files, v.machine)
}

// list shows what files are.
func (c *allocFSCommand) list(f *flags, files []*nomad.AllocFileInfo, inBytes bool) int {
	if *f.json {
		return c.printJSON(files)
	}
	rows := [][]string{{"Mode", "Size", "Modified Time", "Name"}}
	for _, file := range files {
		name, size := file.Name, humanize.IBytes(uint64(file.Size))
		if file.IsDir {
			name += "/"
		}
		if inBytes {
			size = strconv.FormatInt(file.Size, 10)
		}
		rows = append(rows, []string{file.FileMode, size, timeOrNA(file.ModTime), name})
	}
	c.table(rows)
	return 0
}

// print prints a file, or its end, and what is added to it.
func (v *fileView) print(client *nomad.Client, alloc *nomad.Allocation, path string) error {
	origin, offset, keep := tailOf(v.tail, v.lines, v.bytes)
	if v.follow {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		frames, errs := client.AllocFS().Stream(alloc, path, origin, offset, ctx.Done(), nil)
		return copyFrames(ctx, os.Stdout, frames, errs, keep)
	}
	if v.tail {
		frames, errs := client.AllocFS().Stream(alloc, path, origin, offset, nil, &nomad.QueryOptions{Params: map[string]string{"follow": "false"}})
		return copyFrames(context.Background(), os.Stdout, frames, errs, keep)
	}
	r, err := client.AllocFS().Cat(alloc, path, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(os.Stdout, r)
	return err
}
