package main

import (
	"errors"
	"fmt"
)

type jobTagUnsetCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobTagUnsetCommand) Synopsis() string { return "Remove the name of a version of a job" }

// Help implements [subcommand].
func (*jobTagUnsetCommand) Help() string {
	return `Usage: wasmnode job tag unset [options] -name=NAME JOB

  Removes a tag. Its version is kept no longer than others.

Options:

  -name=NAME   The tag.` + commonOptions
}

// Run implements [subcommand].
func (c *jobTagUnsetCommand) Run(args []string) int {
	f := c.flags("job tag unset")
	name := f.String("name", "", "")
	client, job := c.onJob(f, args, 1, 1, c.Help())
	switch {
	case job == nil:
		return 1
	case *name == "":
		return c.fail(f, errors.New("the tag is missing: name it with -name"))
	}
	if _, err := client.Jobs().UntagVersion(*job.ID, *name, nil); err != nil {
		return c.fail(f, err)
	}
	c.ui.Output(fmt.Sprintf("Tag %q removed from job %q", *name, *job.ID))
	return 0
}
