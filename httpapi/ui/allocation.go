package ui

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

// allocationBody is what the page of an allocation shows.
type allocationBody struct {
	*nomad.Allocation
	Tasks []taskBody
	// Checks are the last results of its checks.
	Checks []checkLine
	// Problem is why there are no figures; empty also where nothing runs.
	Problem string
}

// taskBody is a task of an allocation.
type taskBody struct {
	Name      string
	State     *nomad.TaskState
	Allowed   *nomad.Resources
	Used      *nomad.ResourceUsage // nil: it is not measured
	MemoryMax int                  // MiB
	// Events are the newest first.
	Events []*nomad.TaskEvent
	// CPU and Memory are what it used before; nil: that is not known.
	CPU, Memory *spark
}

// checkLine is the last result of a check.
type checkLine struct {
	Service, Check, Task, Status, Output string
	Timestamp                            int64
}

// MemoryMB is what the task has, in MiB.
func (t taskBody) MemoryMB() int { return int(t.Used.MemoryStats.Usage >> 20) }

// Ticks is what the task uses of the processors, in MHz.
func (t taskBody) Ticks() int { return int(t.Used.CpuStats.TotalTicks) }

func (s *site) allocation(a *asker, id string) (*view, error) {
	body := &allocationBody{}
	if _, err := a.get(&body.Allocation, path("allocation", id), nil); err != nil {
		return nil, err
	}
	usage := map[string]*nomad.ResourceUsage{}
	if body.ClientStatus == nomad.AllocClientStatusRunning {
		var measured nomad.AllocResourceUsage
		body.Problem = a.try(&measured, path("client", "allocation", id, "stats"), nil)
		for name, task := range measured.Tasks {
			usage[name] = task.ResourceUsage
		}
		var checks map[string]checkLine
		a.try(&checks, path("client", "allocation", id, "checks"), nil)
		body.Checks = slices.SortedFunc(maps.Values(checks), func(x, y checkLine) int {
			return cmp.Or(strings.Compare(x.Service, y.Service), strings.Compare(x.Check, y.Check))
		})
	}
	for _, name := range taskNames(body.Allocation) {
		t := taskBody{Name: name, State: body.TaskStates[name], Allowed: body.TaskResources[name], Used: usage[name]}
		if t.Used != nil && (t.Used.MemoryStats == nil || t.Used.CpuStats == nil) {
			t.Used = nil
		}
		if t.Used != nil {
			before := s.add(a, "task "+id+"/"+name, float64(t.Ticks()), float64(t.MemoryMB()))
			t.CPU, t.Memory = sparkOf(before, "MHz", first), sparkOf(before, "MiB", second)
		}
		if t.Allowed != nil && t.Allowed.MemoryMB != nil {
			t.MemoryMax = *t.Allowed.MemoryMB
			if most := t.Allowed.MemoryMaxMB; most != nil {
				t.MemoryMax = max(t.MemoryMax, *most)
			}
		}
		if t.State != nil {
			t.Events = slices.Clone(t.State.Events)
			slices.Reverse(t.Events)
		}
		body.Tasks = append(body.Tasks, t)
	}
	v := &view{
		template: "allocation", Title: body.Name, Section: "jobs", Body: body, JSON: a.asked,
		Parents: []link{{"Jobs", Prefix + "jobs"}, {body.JobID, jobPath(body.Namespace, body.JobID)}},
	}
	if body.ClientStatus == nomad.AllocClientStatusRunning {
		v.Poll = poll
	}
	return v, nil
}

// taskNames are those of an allocation's tasks, in the order of the job where that tells it.
func taskNames(a *nomad.Allocation) (names []string) {
	if a.Job != nil {
		for _, g := range a.Job.TaskGroups {
			if g.Name != nil && *g.Name == a.TaskGroup {
				for _, t := range g.Tasks {
					names = append(names, t.Name)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// tail is how much of the end of a log a page begins with, and of the beginning of a file.
const tail = 64 << 10

// logsBody is what the page of a task's log shows.
type logsBody struct {
	ID, Task, Type string
	Text           string
	Follow         string // the path of the API that goes on with it
	Tail           int
}

func (s *site) logs(a *asker, id, task string) (*view, error) {
	body := &logsBody{ID: id, Task: task, Type: cmp.Or(a.request.URL.Query().Get("type"), "stdout"), Tail: tail}
	var alloc nomad.Allocation
	if _, err := a.get(&alloc, path("allocation", id), nil); err != nil {
		return nil, err
	}
	q := values("task", task, "type", body.Type, "origin", "end", "offset", number(tail), "plain", "true")
	text, err := a.text(path("client", "fs", "logs", id), q)
	if err != nil {
		return nil, err
	}
	body.Text = readable(text)
	q.Set("follow", "true")
	body.Follow = path("client", "fs", "logs", id) + "?" + q.Encode()
	return &view{
		template: "logs", Title: "Log of " + task, Section: "jobs", Body: body, JSON: a.asked, Still: true,
		Parents: []link{{"Jobs", Prefix + "jobs"}, {alloc.JobID, jobPath(alloc.Namespace, alloc.JobID)}, {alloc.Name, allocationPath(id)}},
	}, nil
}

// readable is text of which what is no text is replaced.
func readable(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
