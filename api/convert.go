package api

import (
	"github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// allocation renders an allocation in full, as GET /v1/allocation/:id does. Fields
// whose absence makes Nomad's command line panic are always there.
func allocation(a *structs.Allocation) *api.Allocation {
	return &api.Allocation{
		ID:                    a.ID,
		Namespace:             a.Namespace,
		EvalID:                a.EvalID,
		Name:                  a.Name,
		NodeID:                a.NodeID,
		NodeName:              a.NodeName,
		JobID:                 a.JobID,
		Job:                   a.Job,
		TaskGroup:             a.TaskGroup,
		Resources:             summedResources(a.Resources),
		TaskResources:         taskResources(a.Resources),
		AllocatedResources:    allocatedResources(a.Resources),
		Metrics:               metrics(a.Metrics),
		DesiredStatus:         string(a.DesiredStatus),
		DesiredDescription:    a.DesiredDescription,
		ClientStatus:          string(a.ClientStatus),
		ClientDescription:     a.ClientDescription,
		TaskStates:            taskStates(a.TaskStates),
		DeploymentID:          a.DeploymentID,
		DeploymentStatus:      deploymentStatus(a.DeploymentStatus),
		FollowupEvalID:        a.FollowupEvalID,
		PreviousAllocation:    a.PreviousAllocation,
		NextAllocation:        a.NextAllocation,
		PreemptedAllocations:  a.PreemptedAllocations,
		PreemptedByAllocation: a.PreemptedByAllocation,
		CreateIndex:           a.CreateIndex,
		ModifyIndex:           a.ModifyIndex,
		AllocModifyIndex:      a.AllocModifyIndex,
		CreateTime:            a.CreateTime,
		ModifyTime:            a.ModifyTime,
	}
}

// allocationStub renders an allocation as the lists do.
func allocationStub(a *structs.Allocation) *api.AllocationListStub {
	stub := &api.AllocationListStub{
		ID:                    a.ID,
		EvalID:                a.EvalID,
		Name:                  a.Name,
		Namespace:             a.Namespace,
		NodeID:                a.NodeID,
		NodeName:              a.NodeName,
		JobID:                 a.JobID,
		TaskGroup:             a.TaskGroup,
		DesiredStatus:         string(a.DesiredStatus),
		DesiredDescription:    a.DesiredDescription,
		ClientStatus:          string(a.ClientStatus),
		ClientDescription:     a.ClientDescription,
		TaskStates:            taskStates(a.TaskStates),
		DeploymentStatus:      deploymentStatus(a.DeploymentStatus),
		FollowupEvalID:        a.FollowupEvalID,
		NextAllocation:        a.NextAllocation,
		PreemptedAllocations:  a.PreemptedAllocations,
		PreemptedByAllocation: a.PreemptedByAllocation,
		CreateIndex:           a.CreateIndex,
		ModifyIndex:           a.ModifyIndex,
		CreateTime:            a.CreateTime,
		ModifyTime:            a.ModifyTime,
	}
	if a.Job != nil {
		stub.JobType, stub.JobVersion = *a.Job.Type, *a.Job.Version
	}
	return stub
}

func metrics(m *api.AllocationMetric) *api.AllocationMetric {
	if m == nil {
		return &api.AllocationMetric{}
	}
	return m
}

func taskStates(states map[string]*structs.TaskState) map[string]*api.TaskState {
	if states == nil {
		return nil
	}
	out := make(map[string]*api.TaskState, len(states))
	for name, s := range states {
		t := &api.TaskState{
			State:       string(s.State),
			Failed:      s.Failed,
			Restarts:    s.Restarts,
			LastRestart: s.LastRestart,
			StartedAt:   s.StartedAt,
			FinishedAt:  s.FinishedAt,
			Events:      make([]*api.TaskEvent, 0, len(s.Events)),
		}
		for _, e := range s.Events {
			t.Events = append(t.Events, &api.TaskEvent{
				Type:           e.Type,
				Time:           e.Time,
				Message:        e.Message,
				DisplayMessage: e.DisplayMessage,
				Details:        e.Details,
				FailsTask:      e.FailsTask,
			})
		}
		out[name] = t
	}
	return out
}

func deploymentStatus(d *structs.DeploymentStatus) *api.AllocDeploymentStatus {
	if d == nil {
		return nil
	}
	return &api.AllocDeploymentStatus{Healthy: d.Healthy, Timestamp: d.Timestamp, Canary: d.Canary}
}

func allocatedResources(r structs.AllocatedResources) *api.AllocatedResources {
	out := &api.AllocatedResources{
		Tasks:  make(map[string]*api.AllocatedTaskResources, len(r.Tasks)),
		Shared: api.AllocatedSharedResources{DiskMB: int64(r.DiskMB)},
	}
	for name, t := range r.Tasks {
		out.Tasks[name] = &api.AllocatedTaskResources{
			Cpu:    api.AllocatedCpuResources{CpuShares: int64(t.CPUMHz)},
			Memory: api.AllocatedMemoryResources{MemoryMB: int64(t.MemoryMB), MemoryMaxMB: int64(t.MemoryMaxMB)},

			Devices: allocatedDevices(t.Devices),
		}
	}
	for _, p := range r.Ports {
		out.Shared.Ports = append(out.Shared.Ports, api.PortMapping{Label: p.Label, Value: p.Value, To: p.To, HostIP: p.HostIP})
	}
	return out
}

func taskResources(r structs.AllocatedResources) map[string]*api.Resources {
	out := make(map[string]*api.Resources, len(r.Tasks))
	for name, t := range r.Tasks {
		out[name] = resources(t.CPUMHz, t.MemoryMB, 0)
	}
	return out
}

func summedResources(r structs.AllocatedResources) *api.Resources {
	var cpu, memory int
	for _, t := range r.Tasks {
		cpu += t.CPUMHz
		memory += t.MemoryMB
	}
	return resources(cpu, memory, r.DiskMB)
}

func resources(cpu, memory, disk int) *api.Resources {
	return &api.Resources{CPU: &cpu, MemoryMB: &memory, DiskMB: &disk}
}

// node renders a node in full.
func node(n *structs.Node) *api.Node {
	out := &api.Node{
		ID:                    n.ID,
		Datacenter:            n.Datacenter,
		Name:                  n.Name,
		HTTPAddr:              n.HTTPAddress,
		Attributes:            n.Attributes,
		NodeResources:         nodeResources(n),
		ReservedResources:     reservedResources(n.Reserved),
		Meta:                  n.Meta,
		NodeClass:             n.Class,
		NodePool:              n.Pool,
		SchedulingEligibility: n.Eligibility,
		Status:                string(n.Status),
		Drivers:               drivers(n.Drivers),
		CreateIndex:           n.CreateIndex,
		ModifyIndex:           n.ModifyIndex,
	}
	for _, e := range n.Events {
		out.Events = append(out.Events, &api.NodeEvent{Message: e.Message, Subsystem: e.Subsystem, Details: e.Details, Timestamp: e.Time})
	}
	return out
}

// nodeStub renders a node as the list does.
func nodeStub(n *structs.Node) *api.NodeListStub {
	return &api.NodeListStub{
		Address:               n.HTTPAddress,
		ID:                    n.ID,
		Datacenter:            n.Datacenter,
		Name:                  n.Name,
		NodeClass:             n.Class,
		NodePool:              n.Pool,
		Version:               n.Version,
		SchedulingEligibility: n.Eligibility,
		Status:                string(n.Status),
		Drivers:               drivers(n.Drivers),
		NodeResources:         nodeResources(n),
		ReservedResources:     reservedResources(n.Reserved),
		CreateIndex:           n.CreateIndex,
		ModifyIndex:           n.ModifyIndex,
	}
}

func drivers(infos map[string]*structs.DriverInfo) map[string]*api.DriverInfo {
	out := make(map[string]*api.DriverInfo, len(infos))
	for name, d := range infos {
		out[name] = &api.DriverInfo{
			Attributes:        d.Attributes,
			Detected:          d.Detected,
			Healthy:           d.Healthy,
			HealthDescription: d.HealthDescription,
			UpdateTime:        d.UpdateTime,
		}
	}
	return out
}

func nodeResources(n *structs.Node) *api.NodeResources {
	r := n.Resources
	return &api.NodeResources{
		Cpu:    api.NodeCpuResources{CpuShares: int64(r.CPUMHz), TotalCpuCores: uint16(r.Cores)},
		Memory: api.NodeMemoryResources{MemoryMB: int64(r.MemoryMB)},
		Disk:   api.NodeDiskResources{DiskMB: int64(r.DiskMB)},

		Devices: nodeDevices(n.Devices),
	}
}

func reservedResources(r structs.NodeResources) *api.NodeReservedResources {
	return &api.NodeReservedResources{
		Cpu:    api.NodeReservedCpuResources{CpuShares: uint64(r.CPUMHz)},
		Memory: api.NodeReservedMemoryResources{MemoryMB: uint64(r.MemoryMB)},
		Disk:   api.NodeReservedDiskResources{DiskMB: uint64(r.DiskMB)},
	}
}

// jobStub renders a job as the list does.
func jobStub(j *api.Job, summary *api.JobSummary) *api.JobListStub {
	return &api.JobListStub{
		ID:                *j.ID,
		ParentID:          deref(j.ParentID),
		Name:              *j.Name,
		Namespace:         deref(j.Namespace),
		Datacenters:       j.Datacenters,
		Type:              *j.Type,
		Priority:          deref(j.Priority),
		Periodic:          j.Periodic != nil,
		ParameterizedJob:  j.ParameterizedJob != nil,
		Stop:              deref(j.Stop),
		Status:            deref(j.Status),
		StatusDescription: deref(j.StatusDescription),
		JobSummary:        summary,
		CreateIndex:       deref(j.CreateIndex),
		ModifyIndex:       deref(j.ModifyIndex),
		JobModifyIndex:    deref(j.JobModifyIndex),
		SubmitTime:        deref(j.SubmitTime),
	}
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
