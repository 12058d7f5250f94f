package main

import (
	"errors"
	"fmt"
	"strconv"

	nomad "github.com/hashicorp/nomad/api"
)

type jobHistoryCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobHistoryCommand) Synopsis() string { return "Show the versions of a job" }

// Help implements [subcommand].
func (*jobHistoryCommand) Help() string {
	return `Usage: wasmnode job history [options] JOB

  Shows the kept versions of a job, the newest first: the last six, and those that have
  a tag.

Options:

  -p                   Show in what each differs from the one before.
  -diff-version=N      Show in what each differs from version N.
  -diff-tag=TAG        Show in what each differs from the version with that tag.
  -version=N           Show that version alone.
  -full                Show the whole job of each version.` + commonOptions
}

// history is what is asked of a job's versions.
type history struct {
	diffs, full bool
	version     string
	with        nomad.VersionsOptions
}

func (h *history) flags(f *flags) {
	f.BoolVar(&h.diffs, "p", false, "")
	f.BoolVar(&h.full, "full", false, "")
	f.StringVar(&h.version, "version", "", "")
	f.StringVar(&h.with.DiffTag, "diff-tag", "", "")
	f.Func("diff-version", "", func(s string) error {
		n, err := strconv.ParseUint(s, 10, 64)
		h.with.DiffVersion = &n
		return err
	})
}

// check reports what is asked for that does not go together.
func (h *history) check(f *flags) error {
	h.with.Diffs = h.diffs || h.with.DiffTag != "" || h.with.DiffVersion != nil
	switch {
	case h.with.Diffs && (*f.json || h.full):
		return errors.New("-json, -t and -full are exclusive with -p, -diff-version and -diff-tag")
	case h.full && *f.json:
		return errors.New("-full is exclusive with -json and -t, which show all of a job")
	case h.with.DiffTag != "" && h.with.DiffVersion != nil:
		return errors.New("-diff-version and -diff-tag are exclusive")
	}
	return nil
}

// Run implements [subcommand].
func (c *jobHistoryCommand) Run(args []string) int {
	f := c.flags("job history")
	var h history
	h.flags(f)
	client, job := c.onJob(f, args, 1, 1, c.Help())
	if job == nil {
		return 1
	}
	if err := h.check(f); err != nil {
		return c.fail(f, err)
	}
	versions, diffs, _, err := client.Jobs().VersionsOpts(*job.ID, &h.with, nil)
	if err != nil {
		return c.fail(f, err)
	}
	if h.version == "" {
		return c.show(f, &h, versions, diffs)
	}
	number, err := versionNamed(client, job, h.version)
	if err != nil {
		return c.fail(f, err)
	}
	for i, v := range versions {
		if *v.Version == number {
			return c.show(f, &h, versions[i:i+1], diffs[min(i, len(diffs)):min(i+1, len(diffs))])
		}
	}
	return c.fail(f, fmt.Errorf("version %d of job %q is not kept", number, *job.ID))
}

func (c *jobHistoryCommand) show(f *flags, h *history, versions []*nomad.Job, diffs []*nomad.JobDiff) int {
	if *f.json {
		if h.version != "" {
			return c.printJSON(versions[0])
		}
		return c.printJSON(versions)
	}
	for i, v := range versions {
		if i > 0 {
			c.ui.Output("")
		}
		if h.full {
			if code := c.printJSON(map[string]*nomad.Job{"Job": v}); code != 0 {
				return code
			}
			continue
		}
		c.version(v)
		if i < len(diffs) {
			c.ui.Output("Diff        =\n" + diffText(diffs[i], *f.verbose))
		}
	}
	return 0
}

func (c *jobHistoryCommand) version(v *nomad.Job) {
	rows := [][2]string{
		{"Version", strconv.FormatUint(*v.Version, 10)},
		{"Stable", strconv.FormatBool(*v.Stable)},
		{"Submit Date", stamp(*v.SubmitTime)},
	}
	if tag := v.VersionTag; tag != nil {
		rows = append(rows, [2]string{"Tag Name", tag.Name})
		if tag.Description != "" {
			rows = append(rows, [2]string{"Tag Description", tag.Description})
		}
	}
	c.pairs(rows)
}
