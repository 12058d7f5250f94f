package standalone

import (
	"fmt"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// advise warns about what Nomad warns about, with its texts and in its order. The job has no
// faults.
func (v *validation) advise(j *nomad.Job) {
	for _, g := range j.TaskGroups {
		if texts := groupAdvice(j, g); len(texts) > 0 {
			v.warnings.add(adviceOf("Group", *g.Name, texts))
		}
	}
	if p := j.Periodic; p != nil && structs.Deref(p.Spec) != "" {
		v.warnings.add("cron is deprecated and may be removed in a future release. Use crons instead")
	}
	for _, g := range j.TaskGroups {
		v.adviseOnServices(g)
	}
	if promotesInPart(j) {
		v.warnings.add("auto_promote must be true for all groups to enable automatic promotion")
	}
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			if structs.Deref(t.Resources.MemoryMaxMB) != 0 && !v.oversubscribe {
				v.warnings.add(fmt.Sprintf("Memory oversubscription is not enabled; Task %q memory_max value will be ignored. "+
					"Update the Scheduler Configuration to allow oversubscription.", *g.Name+"."+t.Name))
			}
		}
	}
}

func groupAdvice(j *nomad.Job, g *nomad.TaskGroup) (texts []string) {
	if u := g.Update; u != nil && *j.Type == nomad.JobTypeService && *g.Count > 1 && structs.Deref(u.MaxParallel) > *g.Count {
		texts = append(texts, fmt.Sprintf("Update max parallel count is greater than task group count (%d > %d). "+
			"A destructive change would result in the simultaneous replacement of all allocations.", *u.MaxParallel, *g.Count))
	}
	for _, t := range g.Tasks {
		var about []string
		if len(t.Resources.Networks) > 0 {
			about = append(about, "task network resources have been deprecated as of Nomad 0.12.0. Please configure networking via group network block.")
		}
		if about = append(about, identityAdvice(t)...); len(about) > 0 {
			texts = append(texts, adviceOf("Task", t.Name, about))
		}
	}
	return texts
}

// adviceOf puts together what is said of a group, or a task.
func adviceOf(what, name string, texts []string) string {
	errors := "errors"
	if len(texts) == 1 {
		errors = "error"
	}
	return fmt.Sprintf("%s %q has warnings: %d %s occurred:\n\t* %s", what, name, len(texts), errors, strings.Join(texts, "\n\t* "))
}

// adviseOnServices warns about services whose tasks are stopped as soon as nothing new is to
// be sent to them.
func (v *validation) adviseOnServices(g *nomad.TaskGroup) {
	delayed := g.ShutdownDelay != nil && *g.ShutdownDelay > 0
	for _, t := range g.Tasks {
		delayed = delayed || t.ShutdownDelay > 0
		if len(t.Services) > 0 && t.ShutdownDelay <= 0 {
			v.warnings.add(fmt.Sprintf("task %q in group %q defines services, but has no shutdown_delay set", t.Name, *g.Name))
		}
	}
	if len(g.Services) > 0 && !delayed {
		v.warnings.add(fmt.Sprintf("group %q defines services, but neither the group nor any of its tasks have shutdown_delay set", *g.Name))
	}
}

// promotesInPart reports whether some groups with canaries are promoted by themselves, and
// others not.
func promotesInPart(j *nomad.Job) bool {
	promotes := func(is bool) bool {
		return slices.ContainsFunc(j.TaskGroups, func(g *nomad.TaskGroup) bool {
			return g.Update != nil && structs.Deref(g.Update.Canary) > 0 && structs.Deref(g.Update.AutoPromote) == is
		})
	}
	return promotes(true) && promotes(false)
}
