package main

import (
	"errors"
	"fmt"
	"strconv"

	nomad "github.com/hashicorp/nomad/api"
)

type jobTagApplyCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobTagApplyCommand) Synopsis() string { return "Name a version of a job" }

// Help implements [subcommand].
func (*jobTagApplyCommand) Help() string {
	return `Usage: wasmnode job tag apply [options] -name=NAME JOB

  Names a version of a job, so that it is kept however many follow it, and can be
  named to job revert and job history.

Options:

  -name=NAME          The tag.
  -version=N          The version; without it, the latest.
  -description=TEXT   What is said of it.` + commonOptions
}

// Run implements [subcommand].
func (c *jobTagApplyCommand) Run(args []string) int {
	f := c.flags("job tag apply")
	name := f.String("name", "", "")
	version := f.String("version", "", "")
	description := f.String("description", "", "")
	client, job := c.onJob(f, args, 1, 1, c.Help())
	switch {
	case job == nil:
		return 1
	case *name == "":
		return c.fail(f, errors.New("the tag is missing: name it with -name"))
	}
	req := &nomad.TagVersionRequest{Latest: true, Description: *description}
	n := *job.Version
	if *version != "" {
		var err error
		if n, err = strconv.ParseUint(*version, 10, 64); err != nil {
			return c.fail(f, fmt.Errorf("-version %q is not a number", *version))
		}
		req.Latest, req.Version = false, n
	}
	if _, err := client.Jobs().TagVersionOpts(*job.ID, *name, req, nil); err != nil {
		return c.fail(f, err)
	}
	c.ui.Output(fmt.Sprintf("Job version %d tagged with name %q", n, *name))
	return 0
}
