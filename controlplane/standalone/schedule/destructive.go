package schedule

import (
	"encoding/json"
	"maps"
	"reflect"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// destroysKey is a version of a job and a group of it.
type destroysKey struct {
	version uint64
	group   string
}

// destructive reports whether an allocation's tasks must be stopped and started again
// to become the job's current version.
func (s *scheduler) destructive(a *Alloc, g *nomad.TaskGroup) bool {
	if a.Job == nil {
		return true
	}
	key := destroysKey{structs.Deref(a.Job.JobModifyIndex), *g.Name}
	if key.version == structs.Deref(s.Job.JobModifyIndex) {
		return false
	}
	known, ok := s.destroys[key]
	if !ok {
		old := a.Job.LookupTaskGroup(*g.Name)
		known = old == nil || len(old.Tasks) != len(g.Tasks) || !Same(lastingGroup(a.Job, old), lastingGroup(s.Job, g))
		for i := 0; !known && i < len(g.Tasks); i++ {
			known = DestroysTask(a.Job, s.Job, *g.Name, g.Tasks[i].Name)
		}
		s.destroys[key] = known
	}
	return known
}

// DestroysTask reports whether a task has to be stopped and started again to become that of
// another version of its job, whatever else changes in its group. What only one of the
// versions has does.
func DestroysTask(old, new *nomad.Job, group, task string) bool {
	was, is := lastingTask(old, group, task), lastingTask(new, group, task)
	return was == nil || is == nil || !Same(was, is)
}

// lastingGroup is what of a group's own fields its running tasks cannot take a change of.
func lastingGroup(job *nomad.Job, g *nomad.TaskGroup) any {
	group := *g
	group.Count, group.Tasks, group.Meta = nil, nil, nil
	group.Constraints, group.RestartPolicy, group.ReschedulePolicy = nil, nil, nil
	group.Update, group.Migrate, group.Disconnect, group.Scaling = nil, nil, nil, nil
	//nolint:staticcheck // deprecated, and still in the job files of people
	group.MaxClientDisconnect, group.StopAfterClientDisconnect, group.PreventRescheduleOnLost = nil, nil, nil
	group.Services, group.ShutdownDelay = nil, nil
	return struct {
		Affinities []*nomad.Affinity
		Spreads    []*nomad.Spread
		Payload    []byte
		Group      nomad.TaskGroup
	}{job.Affinities, job.Spreads, job.Payload, group}
}

// lastingTask is what of a task it cannot take a change of while it runs; nil: there is
// no such task.
func lastingTask(job *nomad.Job, group, name string) any {
	g := job.LookupTaskGroup(group)
	if g == nil {
		return nil
	}
	for _, t := range g.Tasks {
		if t.Name != name {
			continue
		}
		task := *t
		task.Constraints, task.ScalingPolicies, task.Services = nil, nil, nil
		task.RestartPolicy, task.KillTimeout, task.KillSignal, task.ShutdownDelay = nil, nil, "", 0
		task.Meta = map[string]string{}
		for _, meta := range []map[string]string{job.Meta, g.Meta, t.Meta} {
			maps.Copy(task.Meta, meta)
		}
		return task
	}
	return nil
}

// Same reports whether two of Nomad's values of a type ask for the same. What is empty is as
// if it were left out, but for what is a driver's or an autoscaler's to judge. What
// cannot be compared is not the same: that is the safe side.
func Same(a, b any) bool {
	was, err1 := asked(a)
	is, err2 := asked(b)
	return err1 == nil && err2 == nil && reflect.DeepEqual(was, is)
}

func asked(v any) (out any, err error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, err
	}
	return withoutEmpty(out), nil
}

// withoutEmpty removes what is empty; of what is all empty, nil is left.
func withoutEmpty(v any) any {
	switch v := v.(type) {
	case string:
		if v != "" {
			return v
		}
	case []any:
		for i := range v {
			v[i] = withoutEmpty(v[i])
		}
		if len(v) > 0 {
			return v
		}
	case map[string]any:
		for key, value := range v {
			if opaque, is := value.(map[string]any); is && (key == "Config" || key == "Policy") && len(opaque) > 0 {
				continue
			}
			if value = withoutEmpty(value); value == nil {
				delete(v, key)
			} else {
				v[key] = value
			}
		}
		if len(v) > 0 {
			return v
		}
	default:
		return v
	}
	return nil
}
