package standalone

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// placed returns the allocation of a job that has one.
func placed(t *testing.T, cp *ControlPlane, job string) (found *structs.Allocation) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, a := range cp.Allocations() {
			if a.JobID == job {
				found = a
			}
		}
		return found != nil
	}, 10*time.Second, time.Millisecond)
	return found
}

// readers are tasks: of a job, and of a child of a parameterized one.
func readers(t *testing.T, cp *ControlPlane) (task, child structs.TaskIdentity) {
	registerNode(t, cp, testNode())
	register(t, cp, testJob("app", nomad.JobTypeBatch))
	register(t, cp, testJob("work", nomad.JobTypeBatch, func(j *nomad.Job) { j.ParameterizedJob = &nomad.ParameterizedJobConfig{} }))
	dispatched, err := cp.DispatchJob(&structs.JobDispatch{Namespace: "default", JobID: "work"})
	require.NoError(t, err)
	for _, path := range []string{
		"nomad/jobs", "nomad/jobs/app", "nomad/jobs/app/g", "nomad/jobs/app/g/t", "nomad/jobs/app/g/t/x", "nomad/jobs/app/h",
		"nomad/jobs/work", "elsewhere",
	} {
		putVariable(t, cp, variable(path, "path", path))
	}
	return structs.TaskIdentity{AllocID: placed(t, cp, "app").ID, Task: "t"},
		structs.TaskIdentity{AllocID: placed(t, cp, dispatched.JobID).ID, Task: "t"}
}

// readBy are the paths of the variables that a task lists; it reads those and no others.
func readBy(t *testing.T, cp *ControlPlane, by structs.TaskIdentity, prefix string) (paths []string) {
	t.Helper()
	list, err := cp.ForNode().TaskVariables(t.Context(), by, "default", prefix)
	require.NoError(t, err)
	may := map[string]bool{}
	for _, v := range list {
		paths, may[v.Path] = append(paths, v.Path), true
	}
	for _, v := range variablesOf(cp) {
		if prefix != "" {
			break
		}
		got, err := cp.ForNode().TaskVariable(t.Context(), by, "default", v.Path)
		index, indexErr := cp.ForNode().TaskVariableIndex(t.Context(), by, "default", v.Path)
		if !may[v.Path] {
			require.ErrorIs(t, err, errdefs.PermissionDenied, v.Path)
			require.ErrorIs(t, indexErr, errdefs.PermissionDenied, v.Path)
			continue
		}
		require.NoError(t, err)
		require.NoError(t, indexErr)
		require.Equal(t, v.Path, got.Items["path"])
		require.Equal(t, v.ModifyIndex, index)
	}
	return paths
}

func TestATaskReadsTheVariablesOfItsJob(t *testing.T) {
	cp, err := Open(Options{Path: filepath.Join(t.TempDir(), "server.db"), ACL: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, cp.Close()) }()
	task, child := readers(t, cp)
	require.Equal(t, []string{"nomad/jobs", "nomad/jobs/app", "nomad/jobs/app/g", "nomad/jobs/app/g/t"}, readBy(t, cp, task, ""))
	require.Equal(t, []string{"nomad/jobs/app/g", "nomad/jobs/app/g/t"}, readBy(t, cp, task, "nomad/jobs/app/"))
	require.Equal(t, []string{"nomad/jobs", "nomad/jobs/work"}, readBy(t, cp, child, ""), "a child reads as the job that it is of")

	v, err := cp.ForNode().TaskVariable(t.Context(), child, "default", "nomad/jobs/work/g")
	require.NoError(t, err)
	require.Nil(t, v, "it may be read, and there is none")
	index, err := cp.ForNode().TaskVariableIndex(t.Context(), child, "default", "nomad/jobs/work/g")
	require.NoError(t, err)
	require.Zero(t, index)
	_, err = cp.ForNode().TaskVariable(t.Context(), task, "other", "nomad/jobs")
	require.ErrorContains(t, err, `variable "nomad/jobs" in namespace "other": Permission denied: with ACLs, the policy of a task's identity is to read nomad/jobs, nomad/jobs/app, nomad/jobs/app/g, nomad/jobs/app/g/t in namespace "default", and no policy is attached to it`)
	_, err = cp.ForNode().TaskVariable(t.Context(), structs.TaskIdentity{AllocID: "none", Task: "t"}, "default", "nomad/jobs")
	require.ErrorIs(t, err, errdefs.NotFound)
}

func TestWithoutACLsATaskReadsAllVariables(t *testing.T) {
	cp := open(t, filepath.Join(t.TempDir(), "server.db"))
	task, _ := readers(t, cp)
	require.Len(t, readBy(t, cp, task, ""), 8)
	list, err := cp.ForNode().TaskVariables(t.Context(), task, "other", "")
	require.NoError(t, err)
	require.Empty(t, list)
}

// Who follows a list is told of each change in it, and of no other.
func TestTheStampOfAListOfVariables(t *testing.T) {
	for _, acl := range []bool{false, true} {
		cp, err := Open(Options{ACL: acl})
		require.NoError(t, err)
		defer func() { require.NoError(t, cp.Close()) }()
		task, _ := readers(t, cp)
		stamp := func(prefix string) uint64 {
			got, err := cp.ForNode().TaskVariablesStamp(t.Context(), task, "default", prefix)
			require.NoError(t, err)
			again, err := cp.ForNode().TaskVariablesStamp(t.Context(), task, "default", prefix)
			require.NoError(t, err)
			require.Equal(t, got, again)
			return got
		}
		const inside, prefix = "nomad/jobs/app/g/t", "nomad/jobs/app/g"
		before := stamp(prefix)
		require.NotEqual(t, before, stamp(""))
		putVariable(t, cp, variable("elsewhere", "a", "b"))
		require.Equal(t, before, stamp(prefix))
		putVariable(t, cp, variable(inside, "a", "b"))
		changed := stamp(prefix)
		require.NotEqual(t, before, changed)
		_, err = cp.DeleteVariable("default", inside, nil)
		require.NoError(t, err)
		require.NotEqual(t, changed, stamp(prefix))
		for i := range 3 * maxStamps / 2 {
			stamp(fmt.Sprint(i))
		}
		require.LessOrEqual(t, len(cp.listStamps.of), maxStamps)
		_, err = cp.ForNode().TaskVariablesStamp(t.Context(), structs.TaskIdentity{AllocID: "none"}, "default", "")
		require.ErrorIs(t, err, errdefs.NotFound)
	}
}

// A job that says that it is another's child would read that one's variables.
func TestNobodyMakesAJobAChildBySayingSo(t *testing.T) {
	cp := open(t, filepath.Join(t.TempDir(), "server.db"))
	registerNode(t, cp, testNode())
	victim := "victim"
	register(t, cp, testJob("mine", nomad.JobTypeBatch, func(j *nomad.Job) { j.ParentID, j.Dispatched = &victim, true }))
	require.Empty(t, structs.Deref(cp.Job("default", "mine").ParentID))
	require.False(t, cp.Job("default", "mine").Dispatched)
	require.NotContains(t, structs.TaskVariables(placed(t, cp, "mine"), "t"), "nomad/jobs/victim")
	plan, err := cp.PlanJob(testJob("mine", nomad.JobTypeBatch, func(j *nomad.Job) { j.ParentID, j.Dispatched = &victim, true }))
	require.NoError(t, err)
	require.Empty(t, structs.Deref(plan.New.ParentID))
	require.False(t, plan.New.Dispatched)

	var fault *ValidationError
	_, err = cp.RegisterJob(&structs.JobRegistration{})
	require.ErrorAs(t, err, &fault)
	require.Equal(t, []string{"job: it is missing"}, fault.Faults)
}
