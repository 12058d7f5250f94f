package standalone

import (
	"fmt"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/cron"
	"github.com/wasmnode/wasmnode/structs"
)

// isParent reports whether a job runs nothing itself, but by the jobs that are launched or
// dispatched of it, its children.
func isParent(j *nomad.Job) bool { return j.Periodic != nil || isParameterized(j) }

func isParameterized(j *nomad.Job) bool { return j.ParameterizedJob != nil && !j.Dispatched }

// isLaunched reports whether a job's children are launched when it is time.
func isLaunched(j *nomad.Job) bool {
	return j.Periodic != nil && *j.Periodic.Enabled && !*j.Stop && !isParameterized(j)
}

// parent is what is remembered of a job with children.
type parent struct {
	parentRow
	due time.Time // of the next launch; zero: never
}

// parentRow is what is stored of it.
type parentRow struct {
	Namespace, ID string
	// From is when the times of launches count from: the last that was launched or passed
	// over, or the registration.
	From time.Time
	// Launched is when a child was launched last; zero: none was.
	Launched time.Time
	// Forgotten is how many children have ended and are not stored any more.
	Forgotten int64 `json:",omitempty"`
}

func newParent(j *nomad.Job, row parentRow) *parent {
	return &parent{row, nextLaunch(j, row.From)}
}

// nextLaunch returns when a child of a job is launched next after a time; zero: never.
func nextLaunch(j *nomad.Job, from time.Time) time.Time {
	if !isLaunched(j) {
		return time.Time{}
	}
	table, faults := cron.New(j.Periodic)
	if len(faults) > 0 { // of a damaged row
		return time.Time{}
	}
	return table.After(from)
}

func whenLaunched(p *parent) (time.Time, bool) { return p.due, !p.due.IsZero() }

// followParent has what is remembered of a job follow its new version, whose launches count
// from now.
func (t *tx) followParent(j *nomad.Job) {
	key := keyOf(j)
	old := t.parents.get(key)
	switch {
	case isParent(j):
		row := parentRow{Namespace: key.namespace, ID: key.id}
		if old != nil {
			row = old.parentRow
		}
		row.From = t.now.UTC()
		t.putParent(j, row)
	case old != nil:
		t.parents.delete(key)
	}
}

func (t *tx) putParent(j *nomad.Job, row parentRow) {
	t.touched[TableJobs] = t.at()
	t.parents.put(keyOf(j), newParent(j, row))
}

// deleteJob forgets a job, which its parent goes on counting among the children that ended.
func (t *tx) deleteJob(key jobKey) {
	t.touched[TableJobs] = t.at()
	if family, is := parentOf(t.jobs.get(key)); is {
		if p := t.parents.get(family); p != nil && t.jobs.get(family) != nil {
			row := p.parentRow
			row.Forgotten++
			t.putParent(t.jobs.get(family).Job, row)
		}
	}
	t.parents.delete(key)
	t.deleteClaimsOf(key)
	t.jobs.delete(key)
}

// parentOf names a job's parent; false: it has none.
func parentOf(j *job) (jobKey, bool) {
	id := structs.Deref(j.ParentID)
	return jobKey{*j.Namespace, id}, id != ""
}

// siblings are the children of a job that have the same status.
type siblings struct {
	parent jobKey
	status string
}

func siblingsOf(j *job) (siblings, bool) {
	key, is := parentOf(j)
	return siblings{key, *j.Status}, is
}

// countChildren counts a job's children by status, forgotten ones too.
func (d *tables) countChildren(key jobKey) structs.ChildrenSummary {
	count := func(status string) int64 { return int64(len(d.children[siblings{key, status}])) }
	s := structs.ChildrenSummary{Pending: count(statusPending), Running: count(statusRunning), Dead: count(statusDead)}
	if p := d.parents[key]; p != nil {
		s.Dead += p.Forgotten
	}
	return s
}

// launchDue launches what is due.
func (t *tx) launchDue() {
	for _, key := range t.cp.data.launches.due(t.now) {
		p, j := t.parents.get(key), t.jobs.get(key)
		if p != nil && j != nil && !p.due.IsZero() && !p.due.After(t.now) {
			t.launchOnTime(j, p)
		}
	}
}

// launchOnTime launches a child of a job whose time has come, unless the job forbids that it
// runs beside another. Times that were missed, because nobody was there or the machine slept,
// are made up for once, and now.
func (t *tx) launchOnTime(j *job, p *parent) {
	at := p.due
	if following := nextLaunch(j.Job, at); at.Before(t.cp.opened) || !following.IsZero() && !following.After(t.now) {
		at = t.now
	}
	row := p.parentRow
	row.From = at.UTC()
	if *j.Periodic.ProhibitOverlap && t.hasLiveChild(keyOf(j.Job)) {
		t.cp.logger.Info("a periodic job is not launched: a child of it still runs", "job", *j.ID, "time", at)
		t.putParent(j.Job, row)
		return
	}
	t.launch(j, row, at)
}

func (t *tx) hasLiveChild(key jobKey) bool {
	return len(t.children.in(siblings{key, statusRunning})) > 0 || len(t.children.in(siblings{key, statusPending})) > 0
}

// launch registers and evaluates a job's child, and remembers that.
func (t *tx) launch(j *job, row parentRow, at time.Time) *structs.Evaluation {
	row.Launched = at.UTC()
	t.putParent(j.Job, row)
	c := *t.version(j)
	id := t.freeID(j, at)
	c.ID, c.Name, c.ParentID = &id, &id, j.ID
	c.Periodic, c.VersionTag = nil, nil
	t.newVersion(nil, &c, nil)
	e := t.newEval(&c, triggerPeriodic)
	e.JobModifyIndex = *t.jobs.get(keyOf(&c)).JobModifyIndex
	t.evaluate(e, nil)
	return e
}

// freeID names a child by the second that it is launched in or, if there is one from that
// second, by the next.
func (t *tx) freeID(j *job, at time.Time) string {
	for unix := at.Unix(); ; unix++ {
		id := fmt.Sprintf("%s%s%d", *j.ID, nomad.JobPeriodicLaunchSuffix, unix)
		if t.jobs.get(jobKey{*j.Namespace, id}) == nil {
			return id
		}
	}
}

// ForcePeriodic launches a child of a periodic job now, also beside another. Its next launch
// stays when it was. An unknown job is errdefs.NotFound, one that is not launched at times an
// errdefs.InvalidArgument.
func (cp *ControlPlane) ForcePeriodic(namespace, id string) (*structs.JobChange, error) {
	out := &structs.JobChange{}
	err := cp.write(func(t *tx) error {
		key := jobKey{namespace, id}
		j := t.jobs.get(key)
		switch {
		case j == nil:
			return notFound("job not found")
		case j.Periodic == nil:
			return invalid("can't force launch non-periodic job")
		case !isLaunched(j.Job):
			return invalid("can't force run non-tracked job %q (%s)", id, namespace)
		}
		e := t.launch(j, t.parents.get(key).parentRow, t.now)
		out.EvalID, out.EvalCreateIndex, out.LastIndex = e.ID, e.CreateIndex, e.ModifyIndex
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
