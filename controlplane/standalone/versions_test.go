package standalone

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// register registers a job with what is said of its source.
func register(t *testing.T, cp *ControlPlane, job *nomad.Job) {
	t.Helper()
	_, err := cp.RegisterJob(&structs.JobRegistration{
		Job: job, Submission: &nomad.JobSubmission{Source: "of " + job.TaskGroups[0].Tasks[0].User, Format: "hcl2"},
	})
	require.NoError(t, err)
}

// versionsOf are a job's kept versions, the newest first.
func versionsOf(cp *ControlPlane, id string) (versions []uint64) {
	for _, j := range cp.JobVersions("default", id) {
		versions = append(versions, *j.Version)
	}
	return versions
}

func TestAnEarlierVersionIsRegisteredAgain(t *testing.T) {
	cp := withNode(t, "")
	register(t, cp, testJob("web", "service", user("one")))
	register(t, cp, testJob("web", "service", user("two")))

	change, err := cp.RevertJob("default", "web", 0, new(uint64(1)))
	require.NoError(t, err)
	require.NotEmpty(t, change.EvalID)
	require.Equal(t, []uint64{2, 1, 0}, versionsOf(cp, "web"))
	require.Equal(t, "one", cp.Job("default", "web").TaskGroups[0].Tasks[0].User)
	require.Equal(t, "of one", cp.JobSubmission("default", "web", 2).Source)
	require.Equal(t, change.JobModifyIndex, *cp.Job("default", "web").JobModifyIndex)

	for name, c := range map[string]struct {
		job      string
		version  uint64
		enforced *uint64
		class    errdefs.Class
		text     string
	}{
		"no such job":     {"wob", 0, nil, errdefs.NotFound, `job "wob" in namespace "default" not found`},
		"the current one": {"web", 2, nil, errdefs.FailedPrecondition, "can't revert to current version"},
		"another now":     {"web", 0, new(uint64(1)), errdefs.FailedPrecondition, "Current job has version 2; enforcing version 1"},
		"no such version": {"web", 9, nil, errdefs.NotFound, `job "web" in namespace "default" at version 9 not found`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cp.RevertJob("default", c.job, c.version, c.enforced)
			require.ErrorContains(t, err, c.text)
			require.Equal(t, c.class, errdefs.ClassOf(err))
		})
	}
	require.Equal(t, []uint64{2, 1, 0}, versionsOf(cp, "web"))
}

func TestTaggedAndStableVersionsAreKeptOverARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cp.db")
	cp := withNode(t, path)
	register(t, cp, testJob("web", "service", user("0")))
	before := *cp.Job("default", "web").ModifyIndex
	tag, err := cp.TagJobVersion("default", "web", nil, "golden", "it works")
	require.NoError(t, err)
	require.NotZero(t, tag.TaggedTime)
	index, err := cp.SetJobStable("default", "web", 0, true)
	require.NoError(t, err)
	require.Greater(t, index, before, "whoever waits for the job is told")
	require.Equal(t, index, *cp.Job("default", "web").ModifyIndex)

	const more = 2 * maxVersions
	for i := range more {
		register(t, cp, testJob("web", "service", user(fmt.Sprint(i+1))))
	}
	cp.CollectGarbage()
	require.NoError(t, cp.Close())
	cp = open(t, path)

	want := []uint64{12, 11, 10, 9, 8, 7, 0}
	require.Equal(t, want, versionsOf(cp, "web"))
	oldest := cp.JobVersions("default", "web")[maxVersions]
	require.Equal(t, tag, oldest.VersionTag)
	require.True(t, *oldest.Stable)
	newest := cp.Job("default", "web")
	require.Nil(t, newest.VersionTag)
	require.False(t, *newest.Stable)

	require.NoError(t, cp.UntagJobVersion("default", "web", "golden"))
	register(t, cp, testJob("web", "service", user("last")))
	require.Equal(t, []uint64{13, 12, 11, 10, 9, 8}, versionsOf(cp, "web"))
}

func TestTagsAreRefused(t *testing.T) {
	cp := withNode(t, "")
	register(t, cp, testJob("web", "service", user("0")))
	_, err := cp.TagJobVersion("default", "web", nil, "golden", "")
	require.NoError(t, err)
	_, err = cp.TagJobVersion("default", "web", new(uint64(0)), "silver", "renamed")
	require.NoError(t, err)
	register(t, cp, testJob("web", "service", user("1")))

	for name, c := range map[string]struct {
		err   func() error
		class errdefs.Class
		text  string
	}{
		"taken": {func() error { _, err := cp.TagJobVersion("default", "web", nil, "silver", ""); return err },
			errdefs.AlreadyExists, `tag "silver" already exists on a different version of job "web"`},
		"no such version": {func() error { _, err := cp.TagJobVersion("default", "web", new(uint64(7)), "x", ""); return err },
			errdefs.NotFound, "at version 7 not found"},
		"no such job": {func() error { _, err := cp.TagJobVersion("default", "wob", nil, "x", ""); return err },
			errdefs.NotFound, `job "wob" in namespace "default" not found`},
		"no name": {func() error { _, err := cp.TagJobVersion("default", "web", nil, "", ""); return err },
			errdefs.InvalidArgument, "a name has 1 to 128 letters"},
		"a long name": {func() error {
			_, err := cp.TagJobVersion("default", "web", nil, strings.Repeat("x", 129), "")
			return err
		}, errdefs.InvalidArgument, "a name has 1 to 128 letters"},
		"a long description": {func() error {
			_, err := cp.TagJobVersion("default", "web", nil, "x", strings.Repeat("x", maxTagDescription+1))
			return err
		}, errdefs.InvalidArgument, "longer than 1000 bytes"},
		"renamed": {func() error { return cp.UntagJobVersion("default", "web", "golden") },
			errdefs.NotFound, `tag "golden" not found on job "web"`},
		"stable": {func() error { _, err := cp.SetJobStable("default", "web", 7, true); return err },
			errdefs.NotFound, "at version 7 not found"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.err()
			require.ErrorContains(t, err, c.text)
			require.Equal(t, c.class, errdefs.ClassOf(err))
		})
	}
}

func TestTaggedVersionsAreBounded(t *testing.T) {
	cp := withNode(t, "")
	for i := range maxTags {
		register(t, cp, testJob("web", "service", user(fmt.Sprint(i))))
		_, err := cp.TagJobVersion("default", "web", nil, fmt.Sprint("tag-", i), "")
		require.NoError(t, err)
	}
	register(t, cp, testJob("web", "service", user("more")))
	_, err := cp.TagJobVersion("default", "web", nil, "more", "")
	require.Equal(t, errdefs.FailedPrecondition, errdefs.ClassOf(err))
	require.ErrorContains(t, err, "64 tagged versions")
}
