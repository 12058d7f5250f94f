package standalone

import (
	"fmt"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// The bounds of a job, all far above what a person writes. While a job is placed nobody else
// is served, so that what that costs has to have an end.
const (
	// maxTasks bounds the tasks of all groups of a job, and with them the groups.
	maxTasks = 2000
	// maxRules bounds the datacenters, constraints and affinities that hold for one group.
	maxRules = 1000
	// maxLooks bounds those rules of one group that look at what else is placed: its spreads,
	// distinct_hosts and distinct_property.
	maxLooks = 32
	// maxTargets bounds what the spreads that hold for one group are to be spread over.
	maxTargets = 1000
)

// bounds finds what makes a job too large to be looked at. The names come first that stand in
// front of what is said of it: with long ones that may be too much to put together.
func (v *validation) bounds(j *nomad.Job) {
	v.length("Job ID", structs.Deref(j.ID))
	tasks := 0
	for i, g := range j.TaskGroups {
		v.length(fmt.Sprintf("Job task group %d: name", i+1), structs.Deref(g.Name))
		for k, t := range g.Tasks {
			v.length(fmt.Sprintf("Job task group %d: task %d: name", i+1, k+1), t.Name)
		}
		tasks += max(1, len(g.Tasks))
	}
	if tasks > maxTasks {
		v.fault("a job has at most %d tasks: its groups have %d", maxTasks, tasks)
	}
	if v.faults.any() {
		return
	}
	for _, g := range j.TaskGroups {
		v.in(fmt.Sprintf("group %q", structs.Deref(g.Name)), func() { v.rules(j, g) })
	}
}

// rules counts what a node has to be looked at for before it runs a group.
func (v *validation) rules(j *nomad.Job, g *nomad.TaskGroup) {
	spreads := slices.Concat(j.Spreads, g.Spreads)
	constraints := slices.Concat(j.Constraints, g.Constraints)
	rules := len(j.Datacenters) + len(constraints) + len(j.Affinities) + len(g.Affinities)
	looks, targets := len(spreads), 0
	for _, c := range constraints {
		if c.Operand == nomad.ConstraintDistinctHosts || c.Operand == nomad.ConstraintDistinctProperty {
			looks++
		}
	}
	for _, sp := range spreads {
		targets += len(sp.SpreadTarget)
	}
	for _, t := range g.Tasks {
		rules += len(t.Constraints) + len(t.Affinities)
		if t.Resources == nil {
			continue
		}
		for _, d := range t.Resources.Devices {
			rules += len(d.Constraints) + len(d.Affinities)
		}
	}
	for _, bound := range []struct {
		what    string
		n, most int
	}{
		{"datacenters, constraints and affinities", rules, maxRules},
		{"spreads, distinct_hosts and distinct_property constraints", looks, maxLooks},
		{"targets of spreads", targets, maxTargets},
	} {
		if bound.n > bound.most {
			v.fault("a group has at most %d %s, the job's and its tasks' included: there are %d", bound.most, bound.what, bound.n)
		}
	}
}

func (v *validation) length(what, name string) {
	if len(name) > maxNameLen {
		v.fault("%s is longer than %d bytes", what, maxNameLen)
	}
}
