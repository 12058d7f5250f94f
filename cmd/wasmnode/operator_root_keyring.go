package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

type rootKeyringListCommand struct{ meta }

// Synopsis implements [subcommand].
func (*rootKeyringListCommand) Synopsis() string {
	return "List the keys that variables are sealed with"
}

// Help implements [subcommand].
func (*rootKeyringListCommand) Help() string {
	return `Usage: wasmnode operator root keyring list [options]

  Lists the root keys that variables are sealed with, without the keys themselves. The
  first one is made with the first variable.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *rootKeyringListCommand) Run(args []string) int {
	f := c.flags("operator root keyring list")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	keys, _, err := client.Keyring().List(nil)
	if err != nil {
		return c.fail(f, err)
	}
	return c.printRootKeys(f, keys)
}

func (m meta) printRootKeys(f *flags, keys []*nomad.RootKeyMeta) int {
	if *f.json {
		return m.printJSON(keys)
	}
	rows := [][]string{{"Key", "State", "Create Time"}}
	for _, k := range keys {
		rows = append(rows, []string{f.short(k.KeyID), string(k.State), stamp(k.CreateTime)})
	}
	m.table(rows)
	return 0
}

type rootKeyringRotateCommand struct{ meta }

// Synopsis implements [subcommand].
func (*rootKeyringRotateCommand) Synopsis() string { return "Seal variables with a new key" }

// Help implements [subcommand].
func (*rootKeyringRotateCommand) Help() string {
	return `Usage: wasmnode operator root keyring rotate [options]

  Has variables that are written from now on sealed with a new root key. Nothing waits
  for it. The keys before are kept, for what is sealed with them, until they are removed.

Options:

  -now           Rotate it at once.
  -prepublish=T  A key of this node signs nothing, so that it refuses to publish one
                 before it is used. One of the two has to be there, as with Nomad.
  -full          Seal the variables that are there anew, too, before the command ends.` + commonOptions
}

// Run implements [subcommand].
func (c *rootKeyringRotateCommand) Run(args []string) int {
	f := c.flags("operator root keyring rotate")
	now, full, prepublish := f.Bool("now", false, ""), f.Bool("full", false, ""), f.Duration("prepublish", 0, "")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	opts := &nomad.KeyringRotateOptions{Full: *full}
	switch {
	case *now == (*prepublish != 0):
		return c.fail(f, errors.New(`One of "-now" or "-prepublish" must be used.`)) //nolint:staticcheck // as in Nomad
	case *prepublish != 0:
		opts.PublishTime = time.Now().Add(*prepublish).UnixNano()
	}
	key, _, err := client.Keyring().Rotate(opts, nil)
	if err != nil {
		return c.fail(f, err)
	}
	return c.printRootKeys(f, []*nomad.RootKeyMeta{key})
}

type rootKeyringRemoveCommand struct{ meta }

// Synopsis implements [subcommand].
func (*rootKeyringRemoveCommand) Synopsis() string { return "Remove a key that is not used any more" }

// Help implements [subcommand].
func (*rootKeyringRemoveCommand) Help() string {
	return `Usage: wasmnode operator root keyring remove [options] KEY

  Removes a root key and its file for good. The active one stays, and so does one that
  variables are sealed with. Snapshots from before a "rotate -full" need the old key.

Options:

  -force   Remove it although variables are sealed with it: nobody can read these again.` + commonOptions
}

// Run implements [subcommand].
func (c *rootKeyringRemoveCommand) Run(args []string) int {
	f := c.flags("operator root keyring remove")
	force := f.Bool("force", false, "")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	id, err := rootKeyID(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	if _, err := client.Keyring().Delete(&nomad.KeyringDeleteOptions{KeyID: id, Force: *force}, nil); err != nil {
		return c.fail(f, err)
	}
	c.ui.Output("Removed encryption key " + id)
	return 0
}

// rootKeyID finds the one root key whose ID begins so.
func rootKeyID(client *nomad.Client, prefix string) (string, error) {
	keys, _, err := client.Keyring().List(nil)
	if err != nil {
		return "", err
	}
	var found []string
	for _, k := range keys {
		if strings.HasPrefix(k.KeyID, prefix) {
			found = append(found, k.KeyID)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%d root keys have an ID that begins with %q", len(found), prefix)
	}
	return found[0], nil
}
