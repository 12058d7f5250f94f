package main

import (
	"errors"
	"fmt"

	nomad "github.com/hashicorp/nomad/api"
)

type volumeDeleteCommand struct{ meta }

// Synopsis implements [subcommand].
func (*volumeDeleteCommand) Synopsis() string { return "Delete a host volume with all that it has" }

// Help implements [subcommand].
func (*volumeDeleteCommand) Help() string {
	return `Usage: wasmnode volume delete [options] ID

  Has the plugin of a volume delete it with all that it has, by its ID or name, or how one
  of them begins. What an allocation has that has not ended stays. Of what was registered,
  nothing is removed.

Options:

  -type=TYPE     host. Nomad's default, csi, is taken for it: there are no others.
  -force         Forget the volume of a node that is gone.
  -secret=K=V    Refused: only CSI volumes have secrets.` + commonOptions
}

// Run implements [subcommand].
func (c *volumeDeleteCommand) Run(args []string) int {
	f := c.flags("volume delete")
	kind, secret, force := f.String("type", "host", ""), f.String("secret", "", ""), f.Bool("force", false, "")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	switch {
	case *kind == "csi":
		return c.fail(f, errCSI)
	case *kind != "host":
		return c.fail(f, fmt.Errorf("No such volume type %q", *kind)) //nolint:staticcheck // as in Nomad
	case *secret != "":
		return c.fail(f, errors.New("-secret: only CSI volumes have secrets"))
	}
	v, err := findVolume(client, f.Arg(0), f.namespace)
	if err != nil {
		return c.fail(f, err)
	}
	if _, _, err := client.HostVolumes().Delete(&nomad.HostVolumeDeleteRequest{ID: v.ID, Force: *force}, &nomad.WriteOptions{Namespace: v.Namespace}); err != nil {
		return c.fail(f, err)
	}
	c.ui.Output(fmt.Sprintf("Successfully deleted volume %q!", v.ID))
	return 0
}

// csiCommand is one of those that are about CSI volumes alone.
type csiCommand struct {
	meta
	name, does string
}

// Synopsis implements [subcommand].
func (c *csiCommand) Synopsis() string { return c.does + " (refused: there are no CSI volumes)" }

// Help implements [subcommand].
func (c *csiCommand) Help() string {
	return fmt.Sprintf(`Usage: wasmnode %s [options] [ARG...]

  Is refused: it is of CSI volumes, of which there are none.

Options:
`, c.name) + commonOptions
}

// Run implements [subcommand].
func (c *csiCommand) Run(args []string) int {
	f := c.flags(c.name)
	if !c.parse(f, args, 0, maxMetaArguments, c.Help()) {
		return 1
	}
	return c.fail(f, fmt.Errorf("%s: %w", c.name, errCSI))
}
