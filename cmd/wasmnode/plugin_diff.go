package main

import (
	"fmt"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/trial"
)

type pluginDiffCommand struct{ meta }

// cannotCompare is the exit code of a comparison that could not be made, as of diff.
const cannotCompare = 2

// Synopsis implements [subcommand].
func (*pluginDiffCommand) Synopsis() string { return "Compare two versions of a plugin" }

// Help implements [subcommand].
func (*pluginDiffCommand) Help() string {
	return `Usage: wasmnode plugin diff [options] OLD NEW

  Says what is different in a newer file of a plugin for those who use it: what it
  imports and exports, which grants it needs, what it can do, and how it and its tasks
  are configured, and which of that may break a job or a configuration that works with
  the old one. Both are loaded to describe themselves, and granted nothing; no node is
  needed.

  The exit code is 0 when nothing of that is different, 1 when something is, and 2 when
  they could not be compared.

Options:

  -json   Print JSON.`
}

// pluginDiff is a comparison, for programs.
type pluginDiff struct {
	Old, New catalog.Description
	Changes  []trial.Change
}

// Run implements [subcommand].
func (c *pluginDiffCommand) Run(args []string) int {
	f := c.flags("plugin diff")
	if !c.parse(f, args, 2, 2, c.Help()) {
		return cannotCompare
	}
	d, err := compareFiles(f.Arg(0), f.Arg(1))
	if err != nil {
		c.fail(f, err)
		return cannotCompare
	}
	code := min(len(d.Changes), 1)
	if *f.json {
		if c.printJSON(d) != 0 {
			return cannotCompare
		}
		return code
	}
	c.print(d)
	return code
}

// compareFiles compares two files of plugins.
func compareFiles(old, new string) (d pluginDiff, err error) {
	var sides [2]trial.Described
	for i, file := range []string{old, new} {
		if sides[i].Spec, sides[i].Says, err = describeFile(file); err != nil {
			return d, err
		}
	}
	d = pluginDiff{Old: descriptionOf(sides[0].Spec, sides[0].Says), New: descriptionOf(sides[1].Spec, sides[1].Says)}
	if d.Changes, err = trial.Compare(sides[0], sides[1]); d.Changes == nil {
		d.Changes = []trial.Change{}
	}
	return d, err
}

// descriptionOf is what a file's plugin says of itself, as a node tells it.
func descriptionOf(spec *host.Spec, says *wasmnodev1.DriverDescribeResponse) catalog.Description {
	return catalog.Description{
		Name: says.GetName(), Type: spec.Kind, Version: says.GetVersion(), Digest: spec.Digest,
		PluginConfigSchema: says.GetPluginConfigSchema(), TaskConfigSchema: says.GetTaskConfigSchema(),
	}
}

func (c *pluginDiffCommand) print(d pluginDiff) {
	switch {
	case d.Old.Digest == d.New.Digest:
		c.ui.Output("The files are the same")
		return
	case len(d.Changes) == 0:
		c.ui.Output("The files are different, but not in what they import, export, need or take")
		return
	}
	breaking := 0
	rows := [][]string{{"Part", "Name", "May break", "Change"}}
	for _, change := range d.Changes {
		breaks := "no"
		if change.Breaking {
			breaks = "yes"
			breaking++
		}
		rows = append(rows, []string{change.Part, change.Name, breaks, change.Text})
	}
	c.table(rows)
	c.ui.Output(fmt.Sprintf("\n%d different, of which %d may break what works with the old one", len(d.Changes), breaking))
}
