package jobdiff

import (
	"cmp"
	"errors"
	"reflect"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// The types of differences, with Nomad's names.
const (
	None    = "None"
	Added   = "Added"
	Deleted = "Deleted"
	Edited  = "Edited"
)

// What is listed is bounded: a job of a few megabytes has millions of fields.
const (
	maxFields = 50_000 // with groups and tasks
	maxBytes  = 32 << 20
)

// ErrTooLarge is returned for jobs with more to list than that.
var ErrTooLarge = errors.New("the jobs differ in more than 50000 fields or 32 MiB: that is not listed")

// Differ compares jobs. Its bounds hold for all its comparisons together. It must not be
// used concurrently.
type Differ struct {
	context       bool
	fields, bytes int // that may still be listed
}

// New returns a Differ. With context, objects that differ list also their fields that are
// the same.
func New(context bool) *Differ { return &Differ{context: context, fields: maxFields, bytes: maxBytes} }

// Jobs compares two canonical jobs; nil is one that is not there. Neither is changed. The
// error is [ErrTooLarge].
func (c *Differ) Jobs(old, new *nomad.Job) (*nomad.JobDiff, error) {
	d := &nomad.JobDiff{}
	was, is := value(old), value(new)
	for _, job := range []*nomad.Job{old, new} {
		if job != nil {
			d.ID = structs.Deref(job.ID)
		}
	}
	d.Fields, d.Objects = c.contents(was, is, false)
	pairs := paired(groupsOf(old), groupsOf(new), func(g *nomad.TaskGroup) string { return structs.Deref(g.Name) })
	changed := len(d.Fields)+len(d.Objects) > 0
	for _, p := range pairs {
		g := c.group(p.name, p.old, p.new)
		changed = changed || g.Type != None
		d.TaskGroups = append(d.TaskGroups, g)
	}
	d.Type = typeOf(was, is, changed)
	if c.exhausted() {
		return nil, ErrTooLarge
	}
	return d, nil
}

// spend counts what is listed.
func (c *Differ) spend(bytes int) {
	c.fields--
	c.bytes -= bytes
}

func (c *Differ) exhausted() bool { return c.fields < 0 || c.bytes < 0 }

func groupsOf(j *nomad.Job) []*nomad.TaskGroup {
	if j == nil {
		return nil
	}
	return j.TaskGroups
}

func (c *Differ) group(name string, old, new *nomad.TaskGroup) *nomad.TaskGroupDiff {
	c.spend(len(name))
	d := &nomad.TaskGroupDiff{Name: name}
	was, is := value(old), value(new)
	d.Fields, d.Objects = c.contents(was, is, false)
	changed := len(d.Fields)+len(d.Objects) > 0
	for _, p := range paired(tasksOf(old), tasksOf(new), func(t *nomad.Task) string { return t.Name }) {
		t := c.task(p.name, p.old, p.new)
		changed = changed || t.Type != None
		d.Tasks = append(d.Tasks, t)
	}
	slices.SortStableFunc(d.Tasks, func(a, b *nomad.TaskDiff) int { return cmp.Compare(a.Name, b.Name) })
	d.Type = typeOf(was, is, changed)
	return d
}

// tasksOf are a group's tasks without what they only have of the group.
func tasksOf(g *nomad.TaskGroup) (tasks []*nomad.Task) {
	if g == nil {
		return nil
	}
	for _, t := range g.Tasks {
		if t == nil {
			continue
		}
		if reflect.DeepEqual(t.RestartPolicy, g.RestartPolicy) {
			own := *t
			own.RestartPolicy = nil
			t = &own
		}
		tasks = append(tasks, t)
	}
	return tasks
}

func (c *Differ) task(name string, old, new *nomad.Task) *nomad.TaskDiff {
	c.spend(len(name))
	d := &nomad.TaskDiff{Name: name}
	was, is := value(old), value(new)
	d.Fields, d.Objects = c.contents(was, is, false)
	d.Type = typeOf(was, is, len(d.Fields)+len(d.Objects) > 0)
	return d
}

// value is what a pointer points to; the zero Value: nothing.
func value[T any](p *T) reflect.Value {
	if p == nil {
		return reflect.Value{}
	}
	return reflect.ValueOf(p).Elem()
}

// typeOf is the type of the difference between two values, of which none may be there.
func typeOf(old, new reflect.Value, changed bool) string {
	switch {
	case !old.IsValid() && new.IsValid():
		return Added
	case old.IsValid() && !new.IsValid():
		return Deleted
	case changed:
		return Edited
	}
	return None
}

// pair is what two lists have under a name.
type pair[T any] struct {
	name     string
	old, new *T
}

// paired pairs the elements of two lists by name: those of the new list in its order, then
// those that are in the old list only. Of a name that a list has twice, the first counts.
func paired[T any](old, new []*T, name func(*T) string) (pairs []pair[T]) {
	at := map[string]int{}
	for _, n := range new {
		if n == nil {
			continue
		}
		if _, again := at[name(n)]; !again {
			at[name(n)] = len(pairs)
			pairs = append(pairs, pair[T]{name: name(n), new: n})
		}
	}
	for _, o := range old {
		if o == nil {
			continue
		}
		i, is := at[name(o)]
		switch {
		case !is:
			at[name(o)] = len(pairs)
			pairs = append(pairs, pair[T]{name: name(o), old: o})
		case pairs[i].old == nil:
			pairs[i].old = o
		}
	}
	return pairs
}
