package main

import (
	"fmt"

	nomad "github.com/hashicorp/nomad/api"
)

type volumeClaimListCommand struct{ meta }

// Synopsis implements [subcommand].
func (*volumeClaimListCommand) Synopsis() string {
	return "List which groups have claimed which volumes"
}

// Help implements [subcommand].
func (*volumeClaimListCommand) Help() string {
	return `Usage: wasmnode volume claim list [options] [ID]

  Lists the claims of task groups that asked for a volume as sticky: what they place next
  has the same one. With an ID, those that begin so.

Options:

  -job=ID              Those of a job.
  -group=GROUP         Those of groups of that name.
  -volume-name=NAME    Those of volumes of that name.` + commonOptions
}

// Run implements [subcommand].
func (c *volumeClaimListCommand) Run(args []string) int {
	f := c.flags("volume claim list")
	var of nomad.TaskGroupHostVolumeClaimsListRequest
	f.StringVar(&of.JobID, "job", "", "")
	f.StringVar(&of.TaskGroup, "group", "", "")
	f.StringVar(&of.VolumeName, "volume-name", "", "")
	client := c.connect(f, args, 0, 1, c.Help())
	if client == nil {
		return 1
	}
	claims, _, err := client.TaskGroupHostVolumeClaims().List(&of, &nomad.QueryOptions{Prefix: f.Arg(0)})
	switch {
	case err != nil:
		return c.fail(f, err)
	case *f.json:
		return c.printJSON(claims)
	case len(claims) == 0:
		c.ui.Output("No task group host volume claims found")
		return 0
	}
	rows := [][]string{{"ID", "Namespace", "Job ID", "Volume ID", "Volume Name"}}
	for _, claim := range claims {
		rows = append(rows, []string{f.short(claim.ID), claim.Namespace, claim.JobID, f.short(claim.VolumeID), claim.VolumeName})
	}
	c.table(rows)
	return 0
}

type volumeClaimDeleteCommand struct{ meta }

// Synopsis implements [subcommand].
func (*volumeClaimDeleteCommand) Synopsis() string { return "Have a group claim another volume" }

// Help implements [subcommand].
func (*volumeClaimDeleteCommand) Help() string {
	return `Usage: wasmnode volume claim delete [options] ID

  Forgets a claim, by its ID or how that begins. What the group places next may have
  another volume of that name, and claims that.

Options:

  -y, -yes   Do not ask.` + commonOptions
}

// Run implements [subcommand].
func (c *volumeClaimDeleteCommand) Run(args []string) int {
	f := c.flags("volume claim delete")
	yes := f.Bool("y", false, "")
	f.BoolVar(yes, "yes", false, "")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	claims, _, err := client.TaskGroupHostVolumeClaims().List(nil, &nomad.QueryOptions{Prefix: f.Arg(0)})
	if err != nil {
		return c.fail(f, err)
	}
	var ids []string
	for _, claim := range claims {
		ids = append(ids, claim.ID)
	}
	id, err := one("claim", f.Arg(0), ids)
	if err == nil && !*yes {
		err = c.confirm(fmt.Sprintf("Are you sure you want to delete task group host volume claim %s?", id))
	}
	if err == nil {
		_, err = client.TaskGroupHostVolumeClaims().Delete(id, nil)
	}
	if err != nil {
		return c.fail(f, err)
	}
	c.ui.Output(fmt.Sprintf("Task group host volume claim %s successfully deleted", id))
	return 0
}
