package main

import (
	"errors"
	"fmt"
	"strconv"

	nomad "github.com/hashicorp/nomad/api"
)

type jobScaleCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobScaleCommand) Synopsis() string { return "Change the count of a group" }

// Help implements [subcommand].
func (*jobScaleCommand) Help() string {
	return `Usage: wasmnode job scale [options] JOB [GROUP] COUNT

  Gives a group of a job another count, within the bounds of its scaling policy, and
  follows it as job run does. The group can be left out when the job has one.

Options:

  -check-index=INDEX   Only if the job's modify index is INDEX.
  -detach              Do not follow: print the evaluation's ID and return.` + commonOptions
}

// Run implements [subcommand].
func (c *jobScaleCommand) Run(args []string) int {
	f := c.flags("job scale")
	detach := f.Bool("detach", false, "")
	index := f.Uint64("check-index", 0, "")
	client, job := c.onJob(f, args, 2, 3, c.Help())
	if job == nil {
		return 1
	}
	last := f.Arg(f.NArg() - 1)
	count, err := strconv.ParseInt(last, 10, 64)
	if err != nil {
		return c.fail(f, fmt.Errorf("count %q is not a number", last))
	}
	group := ""
	switch {
	case f.NArg() > 2:
		group = f.Arg(1)
	case len(job.TaskGroups) == 1:
		group = *job.TaskGroups[0].Name
	default:
		return c.fail(f, errors.New("the job has several groups: name one"))
	}
	change, _, err := client.Jobs().ScaleWithRequest(*job.ID, &nomad.ScalingRequest{
		Count: &count, Target: map[string]string{"Job": *job.ID, "Group": group},
		Message: "submitted using the wasmnode CLI", JobModifyIndex: *index,
	}, nil)
	if err != nil {
		return c.fail(f, err)
	}
	return c.followChange(f, client, change, *detach)
}
