package main

import (
	"fmt"
	"strconv"

	nomad "github.com/hashicorp/nomad/api"
)

// onJob reads a command line whose first argument names a job. Without a job it has printed
// why, and the exit code is 1.
func (m meta) onJob(f *flags, args []string, least, most int, usage string) (*nomad.Client, *nomad.Job) {
	client := m.connect(f, args, least, most, usage)
	if client == nil {
		return nil, nil
	}
	job, err := findJob(client, f.Arg(0))
	if err != nil {
		m.fail(f, err)
		return nil, nil
	}
	return client, job
}

// followChange prints what came of a job's change, and follows it unless it is not to be.
// It returns the exit code.
func (m meta) followChange(f *flags, client *nomad.Client, change *nomad.JobRegisterResponse, detach bool) int {
	if change.Warnings != "" {
		m.ui.Warn("Job Warnings:\n" + change.Warnings)
	}
	switch {
	case *f.json:
		return m.printJSON(change)
	case change.EvalID == "":
		return 0
	case detach:
		m.ui.Output("Evaluation ID: " + change.EvalID)
		return 0
	}
	return (&monitor{meta: m, client: client, flags: f, health: true}).follow(change.EvalID)
}

// versionNamed is the version of a job that a number or a tag names.
func versionNamed(client *nomad.Client, job *nomad.Job, name string) (uint64, error) {
	if version, err := strconv.ParseUint(name, 10, 64); err == nil {
		return version, nil
	}
	tagged, _, err := client.Jobs().VersionByTag(*job.ID, name, nil)
	if err != nil {
		return 0, fmt.Errorf("%q is neither the number nor the tag of a version of job %q", name, *job.ID)
	}
	return *tagged.Version, nil
}
