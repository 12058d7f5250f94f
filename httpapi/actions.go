package httpapi

import (
	"net/http"
	"slices"
	"strconv"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/workload"
)

// jobAction is an action of a job as Nomad lists it.
type jobAction struct {
	Name, TaskName, TaskGroupName string
}

// jobActions lists the actions of a job's tasks.
func jobActions(job *nomad.Job) []jobAction {
	actions := []jobAction{}
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			for _, a := range t.Actions {
				actions = append(actions, jobAction{Name: a.Name, TaskName: t.Name, TaskGroupName: *g.Name})
			}
		}
	}
	return actions
}

// runAction runs an action of a task as its allocation's version of the job has it, over a
// websocket as [handler.execTask] does.
func (h *handler) runAction(w http.ResponseWriter, r *http.Request) error {
	return h.executeOver(w, r, h.action)
}

// action is the command of a request for an action.
func (h *handler) action(r *http.Request) (execution, error) {
	id, _ := jobPath(r)
	v := r.URL.Query()
	alloc := h.ControlPlane.Allocation(v.Get("allocID"))
	if alloc == nil || alloc.JobID != id || alloc.Namespace != namespaceOf(r) {
		return nil, notFound("Unknown allocation %q", v.Get("allocID"))
	}
	if group := v.Get("group"); group != "" && group != alloc.TaskGroup {
		return nil, notFound("task group %q is not the allocation's, which is %q", group, alloc.TaskGroup)
	}
	task := alloc.Task(v.Get("task"))
	if task == nil {
		return nil, badRequest("unknown task name %q", v.Get("task"))
	}
	i := slices.IndexFunc(task.Actions, func(a *nomad.Action) bool { return a.Name == v.Get("action") })
	if i < 0 {
		return nil, notFound("action %q not found in task %q", v.Get("action"), task.Name)
	}
	if err := callerOf(r).mayExec(alloc, task.Name); err != nil {
		return nil, err
	}
	spec := &workload.ExecSpec{Command: task.Actions[i].Command, Args: task.Actions[i].Args}
	if s := v.Get("tty"); s != "" {
		var err error
		if spec.TTY, err = strconv.ParseBool(s); err != nil {
			return nil, badRequest("tty value is not a boolean: %q", s)
		}
	}
	if err := h.Node.CanExec(alloc.ID, task.Name); err != nil {
		return nil, err
	}
	return h.run(alloc.ID, task.Name, spec), nil
}
