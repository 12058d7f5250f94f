package structs

import (
	"cmp"
	"slices"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

// TaskIdentity is who reads what belongs to a task: the task itself, through its templates or with
// a token of its own.
type TaskIdentity struct {
	AllocID string
	Task    string
}

// TaskVariables are the paths of the variables that a task may read and list in the namespace of
// its job whoever wrote them, as with Nomad's workload identities. A job's children read as the
// job that they are of.
func TaskVariables(a *Allocation, task string) []string {
	parts := []string{"nomad", "jobs", IdentityJobID(a), a.TaskGroup, task}
	paths := make([]string, 0, 4)
	for n := 2; n <= len(parts); n++ {
		paths = append(paths, strings.Join(parts[:n], "/"))
	}
	return paths
}

// DefaultIdentity names the identity of a task that is for Nomad's API.
const DefaultIdentity = "default"

// IdentityName names an identity of a task; one without a name is the default one.
func IdentityName(w *nomad.WorkloadIdentity) string { return cmp.Or(w.Name, DefaultIdentity) }

// DefaultAudience is whom the default identity of a task is for.
const DefaultAudience = "nomadproject.io"

// IdentityToken is a signed token that says who a task is.
type IdentityToken struct {
	JWT     string
	Expires time.Time // zero: with its allocation
}

// String does not tell the token.
func (t *IdentityToken) String() string { return "identity token" }

// Workload is the task that a token was verified to be of, and what it may do.
type Workload struct {
	TaskIdentity
	Namespace string
	JobID     string // of a job's child its parent's
	Group     string
	Variables []string // the paths that it may read and list in its namespace
	Policies  []string // the names of those that are attached to it, in order
}

// MayReadVariable reports whether it may read and list a variable whatever its policies say.
func (w *Workload) MayReadVariable(namespace, path string) bool {
	return namespace == w.Namespace && slices.Contains(w.Variables, path)
}

// IdentityJobID is the job that a job's tasks are known as being of: a child's is its parent.
func IdentityJobID(a *Allocation) string {
	if a.Job != nil {
		if parent := Deref(a.Job.ParentID); parent != "" {
			return parent
		}
	}
	return a.JobID
}

// TaskIdentities are the identities of a task that a job asks for: the default one first, if it
// does. Each is of another name.
func TaskIdentities(t *nomad.Task) []*nomad.WorkloadIdentity {
	var all []*nomad.WorkloadIdentity
	if t.Identity != nil {
		all = append(all, t.Identity)
	}
	return append(all, t.Identities...)
}
