package jobspec

import (
	"fmt"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

// DriverFaults is what the drivers of a job's tasks refuse of their config blocks, each in the
// form that [Locate] finds in the job's file, and what could not be checked because a driver is
// not there. Check tells of one driver and block every fault, a line each that begins with its
// path such as "config.args[0]".
//
// What a reference stands for is known when the task starts: nothing is said of an argument or a
// block that has one.
func DriverFaults(job *nomad.Job, check func(driver string, config map[string]any) ([]string, error)) (faults, unchecked []string) {
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			refused, err := check(t.Driver, t.Config)
			where := fmt.Sprintf("task %q", t.Name)
			if g.Name != nil {
				where = fmt.Sprintf("group %q: %s", *g.Name, where)
			}
			if err != nil {
				unchecked = append(unchecked, fmt.Sprintf("%s: its config was not checked: %v", where, err))
			}
			for _, fault := range refused {
				if !refers(blamed(t.Config, fault)) {
					faults = append(faults, where+": "+fault)
				}
			}
		}
	}
	return faults, unchecked
}

// blamed is what of a configuration a fault is about, such as "config.args[0]: …"; nil: of
// what it has not.
func blamed(config map[string]any, fault string) any {
	path, ok := strings.CutPrefix(fault, "config.")
	end := strings.IndexAny(path, ".[:")
	if !ok || end < 0 {
		return config
	}
	return config[path[:end]]
}

// refers reports whether a configuration has references, which may stand for what is no
// text.
func refers(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, "${")
	case []any:
		for _, item := range v {
			if refers(item) {
				return true
			}
		}
	case map[string]any:
		for _, item := range v {
			if refers(item) {
				return true
			}
		}
	}
	return false
}
