package main

import (
	"fmt"
	"os"
)

type volumeInitCommand struct{ meta }

// Synopsis implements [subcommand].
func (*volumeInitCommand) Synopsis() string { return "Write an example of a volume's file" }

// Help implements [subcommand].
func (*volumeInitCommand) Help() string {
	return `Usage: wasmnode volume init [options] [FILE]

  Writes an example of a host volume's file: volume.hcl, or with -json volume.json. A
  file that is there stays as it is.

Options:

  -json        Write JSON.
  -type=TYPE   host. Nomad's default, csi, is refused when it is asked for.`
}

const exampleVolume = `# What jobs name as the source of their volume.
name      = "database"
type      = "host"
plugin_id = "mkdir"

# What the volume may be asked for as. Without any: single-node-writer, file-system.
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

# How much it has to have room for, of plugins that make sizes: mkdir does not.
# capacity_min = "10GiB"
# capacity_max = "20GiB"

# What the plugin is told. These are those of mkdir, with their defaults but for the
# mode, which is 0700: who owns the directory, and what they may do.
parameters = {
  mode = "0755"
  # uid = "1000"
  # gid = "1000"
}
`

const exampleVolumeJSON = `{
  "name": "database",
  "type": "host",
  "plugin_id": "mkdir",
  "capability": [
    {
      "access_mode": "single-node-writer",
      "attachment_mode": "file-system"
    }
  ],
  "parameters": {
    "mode": "0755"
  }
}
`

// Run implements [subcommand].
func (c *volumeInitCommand) Run(args []string) int {
	f := c.flags("volume init")
	kind := f.String("type", "host", "")
	if !c.parse(f, args, 0, 1, c.Help()) {
		return 1
	}
	switch *kind {
	case "host":
	case "csi":
		return c.fail(f, errCSI)
	default:
		return c.fail(f, fmt.Errorf("No such volume type %q", *kind)) //nolint:staticcheck // as in Nomad
	}
	name, content := "volume.hcl", exampleVolume
	if *f.json {
		name, content = "volume.json", exampleVolumeJSON
	}
	if f.NArg() == 1 {
		name = f.Arg(0)
	}
	out, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if os.IsExist(err) {
		return c.fail(f, fmt.Errorf("Volume specification %q already exists", name)) //nolint:staticcheck // as in Nomad
	}
	if err != nil {
		return c.fail(f, err)
	}
	defer out.Close()
	if _, err := out.WriteString(content); err != nil {
		return c.fail(f, err)
	}
	c.ui.Output("Example volume specification written to " + name)
	return 0
}
