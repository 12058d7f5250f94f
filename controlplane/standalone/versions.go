package standalone

import (
	"encoding/json"
	"fmt"
	"regexp"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

const (
	// maxVersions is how many versions without a tag are kept of a job, the current one
	// included (as in Nomad).
	maxVersions = 6
	// maxTags bounds a job's tagged versions, which are kept until their tags are removed.
	maxTags = 64
	// maxTagDescription bounds a tag's description, in bytes (as in Nomad).
	maxTagDescription = 1000
)

// tagName is what a tag may be called: it stands in the path of a request.
var tagName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,128}$`)

// keptVersions leaves out the oldest of a job's versions that have no tag.
func (t *tx) keptVersions(versions []uint64) (kept []uint64) {
	untagged := 0
	for _, index := range versions {
		if sp := t.specs.get(index); sp == nil || sp.VersionTag == nil {
			if untagged++; untagged > maxVersions {
				continue
			}
		}
		kept = append(kept, index)
	}
	return kept
}

// versionOf finds one of a job's kept versions; nil: there is none.
func (j *job) versionOf(specs func(uint64) *spec, version uint64) *spec {
	for _, index := range j.versions {
		if sp := specs(index); sp != nil && *sp.Version == version {
			return sp
		}
	}
	return nil
}

// changeVersion changes what is not part of what a version asks for: its tag, or whether
// it is stable. It is no new version.
func (t *tx) changeVersion(j *job, of *spec, change func(*nomad.Job)) {
	was := *of.Job
	change(&was)
	t.specs.put(*was.JobModifyIndex, &spec{&was, of.submission})
	now, index := *j.Job, t.at()
	if *was.JobModifyIndex == j.versions[0] {
		change(&now)
	}
	now.ModifyIndex = &index
	t.putJob(j.with(&now))
}

// RevertJob registers an earlier version of a job again, with its source, as the next one.
// Unless enforced is nil, the current version has to be that. An unknown job or version
// is errdefs.NotFound; the current one and another than was enforced are
// errdefs.FailedPrecondition; a version that would be refused today is a *ValidationError.
func (cp *ControlPlane) RevertJob(namespace, id string, version uint64, enforced *uint64) (*structs.JobChange, error) {
	out := &structs.JobChange{}
	req := &structs.JobRegistration{}
	from := cp.earlier(namespace, id, version)
	if from != nil {
		var err error
		if req.Job, err = clone(from.Job); err != nil {
			return nil, err
		}
		req.Submission = from.submission
		if out.Warnings, err = cp.setting().prepare(req.Job); err != nil {
			return nil, err
		}
	}
	err := cp.write(func(t *tx) error {
		j := t.jobs.get(jobKey{namespace, id})
		switch {
		case j == nil:
			return notFound("job %q in namespace %q not found", id, namespace)
		case *j.Version == version:
			return errdefs.New(errdefs.FailedPrecondition, "can't revert to current version")
		case enforced != nil && *enforced != *j.Version:
			return errdefs.New(errdefs.FailedPrecondition, "Current job has version %d; enforcing version %d", *j.Version, *enforced)
		case from == nil || j.versionOf(t.specs.get, version) == nil:
			return notFound("job %q in namespace %q at version %d not found", id, namespace, version)
		}
		return t.register(req, triggerRegister, out)
	})
	return out, err
}

// earlier reads a version of a job; nil: there is none.
func (cp *ControlPlane) earlier(namespace, id string, version uint64) *spec {
	return read(cp, func(t *tables) *spec {
		if j := t.jobs[jobKey{namespace, id}]; j != nil {
			return j.versionOf(func(index uint64) *spec { return t.specs[index] }, version)
		}
		return nil
	})
}

// clone copies all of a job.
func clone(j *nomad.Job) (*nomad.Job, error) {
	b, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", *j.ID, err)
	}
	out := new(nomad.Job)
	return out, json.Unmarshal(b, out)
}

// SetJobStable sets whether a version of a job is one that is known to work. It returns
// the job's index. An unknown job or version is errdefs.NotFound.
func (cp *ControlPlane) SetJobStable(namespace, id string, version uint64, stable bool) (index uint64, err error) {
	err = cp.write(func(t *tx) error {
		j, sp, err := t.findVersion(namespace, id, &version)
		if err != nil {
			return err
		}
		t.changeVersion(j, sp, func(j *nomad.Job) { j.Stable = &stable })
		index = t.at()
		return nil
	})
	return index, err
}

// findVersion finds a version of a job, the current one where version is nil.
func (t *tx) findVersion(namespace, id string, version *uint64) (*job, *spec, error) {
	j := t.jobs.get(jobKey{namespace, id})
	if j == nil {
		return nil, nil, notFound("job %q in namespace %q not found", id, namespace)
	}
	if version == nil {
		version = j.Version
	}
	sp := j.versionOf(t.specs.get, *version)
	if sp == nil {
		return nil, nil, notFound("job %q in namespace %q at version %d not found", id, namespace, *version)
	}
	return j, sp, nil
}

// TagJobVersion names a version of a job, the current one where version is nil, so that it
// is kept. The version's own tag is replaced. A name that another version has is
// errdefs.AlreadyExists; an unknown job or version is errdefs.NotFound; more than 64 tagged
// versions are errdefs.FailedPrecondition.
func (cp *ControlPlane) TagJobVersion(namespace, id string, version *uint64, name, description string) (*nomad.JobVersionTag, error) {
	switch {
	case !tagName.MatchString(name):
		return nil, invalid("version tag %q: a name has 1 to 128 letters, digits, '.', '-' and '_'", name)
	case len(description) > maxTagDescription:
		return nil, invalid("version tag description is longer than %d bytes", maxTagDescription)
	}
	var tag *nomad.JobVersionTag
	err := cp.write(func(t *tx) error {
		j, sp, err := t.findVersion(namespace, id, version)
		if err != nil {
			return err
		}
		tagged := 0
		for _, index := range j.versions {
			other := t.specs.get(index)
			if other == nil || other.VersionTag == nil || other == sp {
				continue
			}
			if tagged++; other.VersionTag.Name == name {
				return errdefs.New(errdefs.AlreadyExists, "tag %q already exists on a different version of job %q", name, id)
			}
		}
		if tagged >= maxTags {
			return errdefs.New(errdefs.FailedPrecondition, "job %q has %d tagged versions, and no more are kept: remove a tag first", id, maxTags)
		}
		tag = &nomad.JobVersionTag{Name: name, Description: description, TaggedTime: t.now.UnixNano()}
		t.changeVersion(j, sp, func(j *nomad.Job) { j.VersionTag = tag })
		return nil
	})
	return tag, err
}

// UntagJobVersion removes a tag of a job: its version may be forgotten when the next
// ones come. An unknown job or tag is errdefs.NotFound.
func (cp *ControlPlane) UntagJobVersion(namespace, id, name string) error {
	return cp.write(func(t *tx) error {
		j := t.jobs.get(jobKey{namespace, id})
		if j == nil {
			return notFound("job %q in namespace %q not found", id, namespace)
		}
		for _, index := range j.versions {
			if sp := t.specs.get(index); sp != nil && sp.VersionTag != nil && sp.VersionTag.Name == name {
				t.changeVersion(j, sp, func(j *nomad.Job) { j.VersionTag = nil })
				return nil
			}
		}
		return notFound("tag %q not found on job %q", name, id)
	})
}
