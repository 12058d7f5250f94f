package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/internal/durable"
)

type operatorSnapshotSaveCommand struct{ meta }

// Synopsis implements [subcommand].
func (*operatorSnapshotSaveCommand) Synopsis() string {
	return "Save the state of the control plane to a file"
}

// Help implements [subcommand].
func (*operatorSnapshotSaveCommand) Help() string {
	return `Usage: wasmnode operator snapshot save [options] [FILE]

  Saves all that the control plane has, such as jobs, allocations and tokens, as it
  is at one instant, and checks what was saved. A FILE that is there already is left alone;
  without FILE a name is made up of the time. The file is as secret as what is in it.

Options:

  -stale   Has no effect: there is one server.` + commonOptions
}

// Run implements [subcommand].
func (c *operatorSnapshotSaveCommand) Run(args []string) int {
	f := c.flags("operator snapshot save")
	f.Bool("stale", false, "")
	if !c.parse(f, args, 0, 1, c.Help()) {
		return 1
	}
	path := f.Arg(0)
	if path == "" {
		path = "wasmnode-" + time.Now().UTC().Format("20060102-150405Z") + ".snap"
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	snap, err := client.Operator().Snapshot(nil)
	if err != nil {
		return c.fail(f, err)
	}
	defer snap.Close()
	if err := saveNew(path, snap); err != nil {
		return c.fail(f, err)
	}
	c.ui.Output("State file written to " + path)
	return 0
}

// saveNew writes a snapshot to a file that must not be there: whole and checked, or not at
// all.
func saveNew(path string, snap io.Reader) error {
	f, err := durable.Begin(path, 0o600)
	if err != nil {
		return err
	}
	defer f.Drop()
	sweepSnapshots(filepath.Dir(path))
	if _, err := io.Copy(f, snap); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := agent.InspectSnapshot(f); err != nil {
		return err
	}
	err = f.CommitNew()
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: name another file", path)
	}
	return err
}

// sweepSnapshots removes what is left in a directory of snapshots whose saving was killed, under
// whatever names: it is as secret as they are. That of other users stays.
func sweepSnapshots(dir string) {
	_, _ = durable.Sweep(dir, func(name string) bool { return filepath.Ext(name) == ".snap" }) // the next save tries again
}
