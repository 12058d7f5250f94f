package ui

import (
	"net/http"
	"slices"

	nomad "github.com/hashicorp/nomad/api"
)

// terminalBody is what the page of a task's terminal shows.
type terminalBody struct {
	ID, Task string
	// Exec is the path of the API that a command is run by, but for the command.
	Exec string
	// Problem is why none can be run now.
	Problem string
}

// onlyManagers refuses a terminal to whom the API may well allow one: a page is where a token is
// taken from most easily, and one that may do little is not to open a shell.
const onlyManagers = "A terminal is for management tokens, and this is none. What your token may execute, wasmnode alloc exec executes."

// withoutACL is how the API calls everybody where there are no tokens.
const withoutACL = "acls-disabled"

func (s *site) terminal(a *asker, id, task string) (*view, error) {
	var alloc nomad.Allocation
	if _, err := a.get(&alloc, path("allocation", id), nil); err != nil {
		return nil, err
	}
	var own nomad.ACLToken
	if _, err := a.get(&own, path("acl", "token", "self"), nil); err != nil {
		return nil, err
	}
	if own.Type != "management" && own.AccessorID != withoutACL {
		return nil, &refusal{http.StatusForbidden, onlyManagers, a.request.URL.Path}
	}
	if !slices.Contains(taskNames(&alloc), task) {
		return nil, &refusal{http.StatusNotFound, "the allocation has no such task", a.request.URL.Path}
	}
	body := &terminalBody{ID: id, Task: task}
	body.Exec = path("client", "allocation", id, "exec") + "?" + values("task", task, "tty", "true", "ws_handshake", "true").Encode()
	if state := alloc.TaskStates[task]; state == nil || state.State != "running" {
		body.Problem = "The task does not run: there is nothing that a command could be run in."
	}
	return &view{
		template: "terminal", Title: "Terminal of " + task, Section: "jobs", Body: body, JSON: a.asked[:1], Still: true,
		Parents: []link{{"Jobs", Prefix + "jobs"}, {alloc.JobID, jobPath(alloc.Namespace, alloc.JobID)}, {alloc.Name, allocationPath(id)}},
	}, nil
}
