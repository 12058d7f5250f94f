package ui

import (
	"net/http"

	nomad "github.com/hashicorp/nomad/api"
)

// overviewBody is what the first page shows.
type overviewBody struct {
	Healthy bool
	// Conditions are what the operator has to know.
	Conditions []condition
	Node       *nomad.Node
	Capacity   []capacity
	Problem    string // why there is no capacity
	Running    int    // allocations
	Plugins    []pluginStatus
	Jobs       []jobLine
	JobProblem string
}

// condition is something about a part of the agent.
type condition struct {
	Part, Text, Remedy string
	Unhealthy          bool
}

// agentHealth is what an agent says of itself.
type agentHealth struct {
	nomad.AgentHealthResponse
	Conditions []condition
}

// capacity is how much of something is given away.
type capacity struct {
	Name, Unit  string
	Used, Total int
}

// Percent is the part that is given away, in percent.
func (c capacity) Percent() int { return percent(c.Used, c.Total) }

func percent(used, total int) int {
	if total <= 0 {
		return 0
	}
	return used * 100 / total
}

func (s *site) overview(a *asker) (*view, error) {
	body := &overviewBody{}
	var health agentHealth
	if _, err := a.get(&health, path("agent", "health"), nil, http.StatusInternalServerError); err != nil {
		return nil, err
	}
	body.Healthy = health.Client.Ok && (health.Server == nil || health.Server.Ok) // a client of servers is none
	body.Conditions = health.Conditions
	if _, err := a.get(&body.Node, path("node", s.NodeID), nil); err != nil {
		return nil, err
	}
	s.capacity(a, body)
	var plugins []pluginStatus
	if a.try(&plugins, path("agent", "plugins"), nil) == "" {
		for _, p := range plugins {
			if p.State != "healthy" || p.Reason != "" {
				body.Plugins = append(body.Plugins, p)
			}
		}
	}
	body.JobProblem = a.try(&body.Jobs, path("jobs", "statuses"), values("namespace", "*", "reverse", "true", "per_page", "10"))
	return &view{template: "overview", Title: "Overview", Section: "overview", Poll: poll, Body: body, JSON: a.asked}, nil
}

// capacity sums what the allocations have that have not ended, as far as they may be seen.
func (s *site) capacity(a *asker, body *overviewBody) {
	var allocs []*nomad.AllocationListStub
	body.Problem = a.try(&allocs, path("allocations"), values("namespace", "*", "resources", "true",
		"filter", `NodeID == "`+s.NodeID+`" and (ClientStatus == "running" or ClientStatus == "pending")`)) // of a cluster's, the node's own
	r := body.Node.NodeResources
	if body.Problem != "" || r == nil {
		return
	}
	cpu := capacity{Name: "CPU", Unit: "MHz", Total: int(r.Cpu.CpuShares)}
	memory := capacity{Name: "Memory", Unit: "MiB", Total: int(r.Memory.MemoryMB)}
	disk := capacity{Name: "Disk", Unit: "MiB", Total: int(r.Disk.DiskMB)}
	if kept := body.Node.ReservedResources; kept != nil {
		cpu.Total -= int(kept.Cpu.CpuShares)
		memory.Total -= int(kept.Memory.MemoryMB)
		disk.Total -= int(kept.Disk.DiskMB)
	}
	for _, alloc := range allocs {
		if alloc.ClientStatus == nomad.AllocClientStatusRunning {
			body.Running++
		}
		if alloc.AllocatedResources == nil {
			continue
		}
		for _, t := range alloc.AllocatedResources.Tasks {
			cpu.Used += int(t.Cpu.CpuShares)
			memory.Used += int(t.Memory.MemoryMB)
		}
		disk.Used += int(alloc.AllocatedResources.Shared.DiskMB)
	}
	body.Capacity = []capacity{cpu, memory, disk}
}
