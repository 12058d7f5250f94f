package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

type varPurgeCommand struct{ meta }

// Synopsis implements [subcommand].
func (*varPurgeCommand) Synopsis() string { return "Remove a variable for good" }

// Help implements [subcommand].
func (*varPurgeCommand) Help() string {
	return `Usage: wasmnode var purge [options] PATH

  Removes a variable for good. One that is not there is removed already.

Options:

  -check-index=N   Only the one that has this index.` + commonOptions
}

// Run implements [subcommand].
func (c *varPurgeCommand) Run(args []string) int {
	f := c.flags("var purge")
	checkIndex := f.String("check-index", "", "")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	if f.namespace == "*" {
		return c.fail(f, errAllNamespaces)
	}
	path := strings.Trim(f.Arg(0), " /")
	var err error
	if *checkIndex == "" {
		_, err = client.Variables().Delete(path, nil)
	} else {
		index, invalid := strconv.ParseUint(*checkIndex, 10, 64)
		if invalid != nil {
			return c.fail(f, fmt.Errorf("-check-index %q is not an index", *checkIndex))
		}
		_, err = client.Variables().CheckedDelete(path, index, nil)
	}
	if err != nil {
		return c.failChecked(f, client, path, err)
	}
	c.ui.Output(fmt.Sprintf("Successfully purged variable %q!", path))
	return 0
}

// failChecked is [meta.fail] for a write that expected a variable of another index, or one that is
// not locked.
func (m meta) failChecked(f *flags, client *nomad.Client, path string, err error) int {
	var conflict nomad.ErrCASConflict
	checked := errors.As(err, &conflict)
	locked := isConflict(err) && strings.HasPrefix(saidOf(err), "{")
	if locked || checked && conflict.Conflict.ModifyIndex == 0 { // of one that is locked, nothing is told
		if v, _, unknown := client.Variables().Peek(path, nil); unknown == nil && v != nil && v.Lock != nil {
			m.ui.Error(fmt.Sprintf("Error: attempting to modify locked variable %q: its holder has to let go of it, or not to renew it for %v", path, lockEnd(v.Lock)))
			return 1
		}
	}
	switch {
	case locked: // and who asks may not know for how long
		m.ui.Error(fmt.Sprintf("Error: attempting to modify locked variable %q: its holder has to let go of it", path))
		return 1
	case !checked:
		return m.fail(f, err)
	}
	now := conflict.Conflict
	m.ui.Error("Check-and-Set conflict")
	text := fmt.Sprintf("Your provided check-index (%d) does not match the server-side index (%d).", conflict.CheckIndex, now.ModifyIndex)
	if now.ModifyIndex > 0 {
		text += "\nThe server-side item was last updated on " + stamp(now.ModifyTime) + "."
	}
	how := fmt.Sprintf("-check-index=%d", now.ModifyIndex)
	if f.Lookup("force") != nil {
		how = "-force or " + how
	}
	m.ui.Warn(text + "\nIf you are sure you want to perform this operation, add " + how + " before the positional arguments.")
	return 1
}
