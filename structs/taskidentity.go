package structs

import "strings"

// TaskIdentity is who reads what belongs to a task: the task itself, through its templates.
type TaskIdentity struct {
	AllocID string
	Task    string
}

// TaskVariables are the paths of the variables that a task may read and list in the namespace of
// its job whoever wrote them, as with Nomad's workload identities. A job's children read as the
// job that they are of.
func TaskVariables(a *Allocation, task string) []string {
	job := a.JobID
	if a.Job != nil {
		if parent := Deref(a.Job.ParentID); parent != "" {
			job = parent
		}
	}
	parts := []string{"nomad", "jobs", job, a.TaskGroup, task}
	paths := make([]string, 0, 4)
	for n := 2; n <= len(parts); n++ {
		paths = append(paths, strings.Join(parts[:n], "/"))
	}
	return paths
}
