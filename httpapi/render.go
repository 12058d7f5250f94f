package httpapi

import (
	"maps"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// allocation renders an allocation in full, as GET /v1/allocation/:id does. Fields
// whose absence makes Nomad's command line panic are always there.
func allocation(a *structs.Allocation) *nomad.Allocation {
	return &nomad.Allocation{
		ID:                    a.ID,
		Namespace:             a.Namespace,
		EvalID:                a.EvalID,
		Name:                  a.Name,
		NodeID:                a.NodeID,
		NodeName:              a.NodeName,
		JobID:                 a.JobID,
		Job:                   a.Job,
		TaskGroup:             a.TaskGroup,
		Resources:             summedResources(a),
		TaskResources:         taskResources(a.Resources),
		AllocatedResources:    allocatedResources(a),
		Metrics:               placementMetrics(a.Metrics),
		DesiredStatus:         string(a.DesiredStatus),
		DesiredDescription:    a.DesiredDescription,
		DesiredTransition:     desiredTransition(a),
		ClientStatus:          string(a.ClientStatus),
		ClientDescription:     a.ClientDescription,
		TaskStates:            taskStates(a.TaskStates),
		DeploymentID:          a.DeploymentID,
		DeploymentStatus:      deploymentStatus(a.DeploymentStatus),
		NetworkStatus:         networkStatus(a.Network),
		FollowupEvalID:        a.FollowupEvalID,
		PreviousAllocation:    a.PreviousAllocation,
		NextAllocation:        a.NextAllocation,
		RescheduleTracker:     rescheduleTracker(a.Reschedules),
		PreemptedAllocations:  a.PreemptedAllocations,
		PreemptedByAllocation: a.PreemptedByAllocation,
		CreateIndex:           a.CreateIndex,
		ModifyIndex:           a.ModifyIndex,
		AllocModifyIndex:      a.AllocModifyIndex,
		CreateTime:            a.CreateTime,
		ModifyTime:            a.ModifyTime,
	}
}

// rescheduleTracker renders how an allocation's predecessors were replaced.
func rescheduleTracker(past []structs.Reschedule) *nomad.RescheduleTracker {
	if len(past) == 0 {
		return nil
	}
	t := &nomad.RescheduleTracker{LastReschedule: "ok"}
	for _, r := range past {
		t.Events = append(t.Events, &nomad.RescheduleEvent{RescheduleTime: r.Time, PrevAllocID: r.PreviousAllocation, PrevNodeID: r.PreviousNode})
	}
	return t
}

func desiredTransition(a *structs.Allocation) (d nomad.DesiredTransition) {
	if a.NoShutdownDelay {
		d.NoShutdownDelay = new(true)
	}
	if a.Migrate {
		d.Migrate = new(true)
	}
	return d
}

// allocationStub renders an allocation as the lists do.
func allocationStub(a *structs.Allocation) *nomad.AllocationListStub {
	stub := &nomad.AllocationListStub{
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
		RescheduleTracker:     rescheduleTracker(a.Reschedules),
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

func taskStates(states map[string]*structs.TaskState) map[string]*nomad.TaskState {
	if states == nil {
		return nil
	}
	out := make(map[string]*nomad.TaskState, len(states))
	for name, s := range states {
		t := &nomad.TaskState{
			State:       string(s.State),
			Failed:      s.Failed,
			Restarts:    s.Restarts,
			LastRestart: s.LastRestart,
			StartedAt:   s.StartedAt,
			FinishedAt:  s.FinishedAt,
			Events:      make([]*nomad.TaskEvent, 0, len(s.Events)),
		}
		for _, e := range s.Events {
			t.Events = append(t.Events, taskEvent(e))
		}
		out[name] = t
	}
	return out
}

func deploymentStatus(d *structs.DeploymentStatus) *nomad.AllocDeploymentStatus {
	if d == nil {
		return nil
	}
	return &nomad.AllocDeploymentStatus{Healthy: d.Healthy, Timestamp: d.Timestamp, Canary: d.Canary}
}

func networkStatus(n *structs.AllocNetwork) *nomad.AllocNetworkStatus {
	if n == nil {
		return nil
	}
	return &nomad.AllocNetworkStatus{InterfaceName: n.Interface, Address: n.Address, AddressIPv6: n.AddressIPv6}
}

func allocatedResources(a *structs.Allocation) *nomad.AllocatedResources {
	r := a.Resources
	out := &nomad.AllocatedResources{
		Tasks:  make(map[string]*nomad.AllocatedTaskResources, len(r.Tasks)),
		Shared: nomad.AllocatedSharedResources{DiskMB: int64(r.DiskMB), Networks: networks(a)},
	}
	for name, t := range r.Tasks {
		out.Tasks[name] = &nomad.AllocatedTaskResources{
			Cpu:    nomad.AllocatedCpuResources{CpuShares: int64(t.CPUMHz)},
			Memory: nomad.AllocatedMemoryResources{MemoryMB: int64(t.MemoryMB), MemoryMaxMB: int64(t.MemoryMaxMB)},

			Devices: allocatedDevices(t.Devices),
		}
	}
	for _, p := range r.Ports {
		out.Shared.Ports = append(out.Shared.Ports, nomad.PortMapping{Label: p.Label, Value: p.Value, To: p.To, HostIP: p.HostIP})
	}
	return out
}

// networks are an allocation's ports as older tools of Nomad read them: by their addresses,
// those that the job has given numbers apart.
func networks(a *structs.Allocation) (list []*nomad.NetworkResource) {
	for _, p := range a.Resources.Ports {
		at := slices.IndexFunc(list, func(n *nomad.NetworkResource) bool { return n.IP == p.HostIP })
		if at < 0 {
			at, list = len(list), append(list, &nomad.NetworkResource{IP: p.HostIP})
		}
		port := nomad.Port{Label: p.Label, Value: p.Value, To: p.To}
		if isReserved(a.Group(), p.Label) {
			list[at].ReservedPorts = append(list[at].ReservedPorts, port)
		} else {
			list[at].DynamicPorts = append(list[at].DynamicPorts, port)
		}
	}
	return list
}

// isReserved reports whether a group gives a port its number.
func isReserved(g *nomad.TaskGroup, label string) bool {
	if g == nil {
		return false
	}
	return slices.ContainsFunc(g.Networks, func(n *nomad.NetworkResource) bool {
		return slices.ContainsFunc(n.ReservedPorts, func(p nomad.Port) bool { return p.Label == label })
	})
}

func taskResources(r structs.AllocatedResources) map[string]*nomad.Resources {
	out := make(map[string]*nomad.Resources, len(r.Tasks))
	for name, t := range r.Tasks {
		out[name] = resources(t, 0)
	}
	return out
}

func summedResources(a *structs.Allocation) *nomad.Resources {
	var sum structs.TaskResources
	for _, t := range a.Resources.Tasks {
		sum.CPUMHz += t.CPUMHz
		sum.Cores = append(sum.Cores, t.Cores...)
		sum.MemoryMB += t.MemoryMB
		sum.MemoryMaxMB += max(0, t.MemoryMaxMB)
	}
	out := resources(&sum, a.Resources.DiskMB)
	out.Networks = networks(a)
	return out
}

func resources(r *structs.TaskResources, disk int) *nomad.Resources {
	return &nomad.Resources{
		CPU: new(r.CPUMHz), Cores: new(len(r.Cores)), MemoryMB: new(r.MemoryMB), MemoryMaxMB: new(r.MemoryMaxMB), DiskMB: &disk,
		SecretsMB: new(0), IOPS: new(0),
	}
}

// node renders a node in full.
func node(n *structs.Node) *nomad.Node {
	out := &nomad.Node{
		ID:                    n.ID,
		Datacenter:            n.Datacenter,
		Name:                  n.Name,
		HTTPAddr:              n.HTTPAddress,
		TLSEnabled:            n.TLS,
		Attributes:            n.Attributes,
		NodeResources:         nodeResources(n),
		HostNetworks:          hostNetworks(n.HostNetworks),
		ReservedResources:     reservedResources(n),
		Links:                 map[string]string{},
		HostVolumes:           hostVolumes(n.HostVolumes),
		CSIControllerPlugins:  map[string]*nomad.CSIInfo{},
		CSINodePlugins:        map[string]*nomad.CSIInfo{},
		Meta:                  n.Meta,
		NodeClass:             n.Class,
		NodePool:              n.Pool,
		SchedulingEligibility: n.Eligibility,
		Drain:                 n.Drain != nil,
		DrainStrategy:         drainStrategy(n.Drain),
		LastDrain:             lastDrain(n.LastDrain),
		Status:                string(n.Status),
		StatusUpdatedAt:       statusUpdated(n),
		Drivers:               drivers(n.Drivers),
		CreateIndex:           n.CreateIndex,
		ModifyIndex:           n.ModifyIndex,
	}
	for _, e := range n.Events {
		out.Events = append(out.Events, &nomad.NodeEvent{Message: e.Message, Subsystem: e.Subsystem, Details: e.Details, Timestamp: e.Time})
	}
	return out
}

// statusUpdated is in seconds since 1970; 0: what is stored is from before it was.
func statusUpdated(n *structs.Node) int64 {
	if n.StatusUpdated.IsZero() {
		return 0
	}
	return n.StatusUpdated.Unix()
}

func drainStrategy(d *structs.Drain) *nomad.DrainStrategy {
	if d == nil {
		return nil
	}
	return &nomad.DrainStrategy{
		DrainSpec:     nomad.DrainSpec{Deadline: d.Deadline, IgnoreSystemJobs: d.IgnoreSystemJobs},
		ForceDeadline: d.ForceDeadline,
		StartedAt:     d.StartedAt,
	}
}

func lastDrain(d *structs.LastDrain) *nomad.DrainMetadata {
	if d == nil {
		return nil
	}
	out := &nomad.DrainMetadata{StartedAt: d.StartedAt, UpdatedAt: d.UpdatedAt, Status: nomad.DrainStatus(d.Status), AccessorID: d.AccessorID, Meta: d.Meta}
	if out.Meta == nil {
		out.Meta = map[string]string{}
	}
	return out
}

// nodeStub renders a node as the list does.
func nodeStub(n *structs.Node) *nomad.NodeListStub {
	return &nomad.NodeListStub{
		Address:               n.HTTPAddress,
		ID:                    n.ID,
		Datacenter:            n.Datacenter,
		Name:                  n.Name,
		NodeClass:             n.Class,
		NodePool:              n.Pool,
		Version:               n.Version,
		SchedulingEligibility: n.Eligibility,
		Drain:                 n.Drain != nil,
		LastDrain:             lastDrain(n.LastDrain),
		Status:                string(n.Status),
		Drivers:               drivers(n.Drivers),
		CreateIndex:           n.CreateIndex,
		ModifyIndex:           n.ModifyIndex,
	}
}

func drivers(infos map[string]*structs.DriverInfo) map[string]*nomad.DriverInfo {
	out := make(map[string]*nomad.DriverInfo, len(infos))
	for name, d := range infos {
		out[name] = &nomad.DriverInfo{
			Attributes:        d.Attributes,
			Detected:          d.Detected,
			Healthy:           d.Healthy,
			HealthDescription: d.HealthDescription,
			UpdateTime:        d.UpdateTime,
		}
	}
	return out
}

func nodeResources(n *structs.Node) *nomad.NodeResources {
	r := n.Resources
	return &nomad.NodeResources{
		Cpu:    nomad.NodeCpuResources{CpuShares: int64(r.CPUMHz), TotalCpuCores: uint16(r.Cores)},
		Memory: nomad.NodeMemoryResources{MemoryMB: int64(r.MemoryMB)},
		Disk:   nomad.NodeDiskResources{DiskMB: int64(r.DiskMB)},

		Networks: networkModes(n.NetworkModes),
		Devices:  nodeDevices(n.Devices),

		MinDynamicPort: structs.MinDynamicPort,
		MaxDynamicPort: structs.MaxDynamicPort,
	}
}

// networkModes renders the modes that networks of groups may have besides the node's own.
func networkModes(modes map[string]string) (list []*nomad.NetworkResource) {
	for _, mode := range slices.Sorted(maps.Keys(modes)) {
		if modes[mode] == "" {
			list = append(list, &nomad.NetworkResource{Mode: mode})
		}
	}
	return list
}

// hostNetworks renders the networks that jobs may name.
func hostNetworks(networks []structs.HostNetwork) map[string]*nomad.HostNetworkInfo {
	out := make(map[string]*nomad.HostNetworkInfo, len(networks))
	for _, h := range networks {
		out[h.Name] = &nomad.HostNetworkInfo{Name: h.Name, CIDR: h.CIDR, Interface: h.Interface, ReservedPorts: h.ReservedPorts.String()}
	}
	return out
}

func reservedResources(n *structs.Node) *nomad.NodeReservedResources {
	r := n.Reserved
	return &nomad.NodeReservedResources{
		Cpu:    nomad.NodeReservedCpuResources{CpuShares: uint64(r.CPUMHz)},
		Memory: nomad.NodeReservedMemoryResources{MemoryMB: uint64(r.MemoryMB)},
		Disk:   nomad.NodeReservedDiskResources{DiskMB: uint64(r.DiskMB)},

		Networks: nomad.NodeReservedNetworkResources{ReservedHostPorts: n.ReservedPorts.String()},
	}
}
