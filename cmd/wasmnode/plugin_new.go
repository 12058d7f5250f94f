package main

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/sdk"
)

type pluginNewCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginNewCommand) Synopsis() string {
	return "Make the folder of a new plugin, which builds and runs"
}

// Help implements [subcommand].
func (*pluginNewCommand) Help() string {
	return `Usage: wasmnode plugin new -lang=LANGUAGE [options] NAME

  Makes the folder NAME with a new plugin: its code, the schema of its configuration, tests,
  what a node has to grant it, a job, a Makefile, a README, and a copy of the SDK. It builds,
  is tested and runs as it is, with the toolchain of its language. A driver's tasks are
  scripts of the node's shell; a device plugin has the devices that its configuration names.

Options:

  -lang=LANGUAGE   assemblyscript, c, go, rust or zig.
  -device          Make a device plugin, not a driver.
  -json            Print JSON.`
}

// Run implements [subcommand].
func (c *pluginNewCommand) Run(args []string) int {
	f := c.flags("plugin new")
	language := f.String("lang", "", "")
	device := f.Bool("device", false, "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	if *language == "" {
		return c.fail(f, errors.New("in which language? Add -lang=LANGUAGE, one of "+strings.Join(sdk.Languages(), ", ")))
	}
	made := struct {
		Directory string
		Files     []string // without the SDK's
		Next      []string // commands
	}{Directory: f.Arg(0)}
	var err error
	made.Files, err = sdk.New(".", sdk.Plugin{Name: f.Arg(0), Language: *language, Device: *device, Version: agent.Version})
	if err != nil {
		return c.fail(f, err)
	}
	made.Next = []string{"cd " + made.Directory, "wasmnode plugin test .", "wasmnode plugin dev ."}
	if *f.json {
		return c.printJSON(made)
	}
	for _, file := range made.Files {
		c.ui.Output(filepath.Join(made.Directory, file))
	}
	c.ui.Output(filepath.Join(made.Directory, "sdk") + string(filepath.Separator))
	c.ui.Output("\nNext:\n\n  " + strings.Join(made.Next, "\n  "))
	return 0
}
