package main

import "os"

type operatorSnapshotRestoreCommand struct{ meta }

// Synopsis implements [subcommand].
func (*operatorSnapshotRestoreCommand) Synopsis() string {
	return "Have a saved state take the place of the control plane's"
}

// Help implements [subcommand].
func (*operatorSnapshotRestoreCommand) Help() string {
	return `Usage: wasmnode operator snapshot restore [options] FILE

  Gives a snapshot to the agent, which checks all of it. It takes the place of the
  control plane's state when the agent is started again; until then nothing
  changes. The state before is kept beside it, as server.db.replaced-TIME.

  The ACL tokens are those of the snapshot then: a token that was deleted since works
  again until it is deleted again, and one that was made since is gone.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *operatorSnapshotRestoreCommand) Run(args []string) int {
	f := c.flags("operator snapshot restore")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	snap, err := os.Open(f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	defer snap.Close()
	if _, err := client.Operator().SnapshotRestore(snap, nil); err != nil {
		return c.fail(f, err)
	}
	c.ui.Output("The snapshot is good, and takes the place of the control plane's state when the agent is started again.\nUntil then nothing changes: restart the agent.\n" +
		"ACL tokens are those of the snapshot then: tokens that were deleted since work again, so delete them again.")
	return 0
}
