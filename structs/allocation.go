package structs

import (
	"maps"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

// DesiredStatus is what the control plane wants of an allocation.
type DesiredStatus string

// The desired statuses, with Nomad's names.
const (
	DesiredRun   DesiredStatus = "run"
	DesiredStop  DesiredStatus = "stop"
	DesiredEvict DesiredStatus = "evict"
)

// ClientStatus is what the node reports of an allocation.
type ClientStatus string

// The client statuses, with Nomad's names. Complete, Failed and Lost are
// terminal: an allocation never leaves them.
const (
	ClientPending  ClientStatus = "pending"
	ClientRunning  ClientStatus = "running"
	ClientComplete ClientStatus = "complete"
	ClientFailed   ClientStatus = "failed"
	ClientLost     ClientStatus = "lost"
	// ClientUnknown is what servers know of an allocation whose node they have missed, and whose
	// group gives it time to come back.
	ClientUnknown ClientStatus = "unknown"
)

// Terminal reports whether an allocation with this status has ended for good.
func (s ClientStatus) Terminal() bool {
	return s == ClientComplete || s == ClientFailed || s == ClientLost
}

// Allocation is one placement of a task group on a node.
//
// The control plane owns every field but ClientStatus, ClientDescription,
// TaskStates, DeploymentStatus and Network, which the node reports (see [AllocationState]).
// A value that has been handed to another component is never changed: who wants
// to change one works on [Allocation.Copy].
type Allocation struct {
	ID        string
	Namespace string
	EvalID    string
	Name      string // "job.group[index]"
	NodeID    string
	NodeName  string
	JobID     string
	TaskGroup string
	Job       *nomad.Job // canonicalised; shared and read-only

	Resources AllocatedResources
	Metrics   *PlacementMetrics

	DesiredStatus      DesiredStatus
	DesiredDescription string
	// NoShutdownDelay: its tasks are stopped without the shutdown delays of the job.
	NoShutdownDelay bool `json:",omitempty"`
	// Migrate: it is to go to another node, or to wait for one, because its own is drained.
	Migrate bool `json:",omitempty"`

	ClientStatus      ClientStatus
	ClientDescription string
	TaskStates        map[string]*TaskState
	DeploymentStatus  *DeploymentStatus
	Network           *AllocNetwork `json:",omitempty"` // read-only; nil: it has the node's

	DeploymentID          string
	PreviousAllocation    string
	NextAllocation        string
	PreemptedAllocations  []string
	PreemptedByAllocation string
	FollowupEvalID        string
	// Reschedules is how its predecessors were replaced after they failed, oldest first. It
	// is shared and read-only.
	Reschedules []Reschedule `json:",omitempty"`

	CreateIndex uint64
	ModifyIndex uint64
	// AllocModifyIndex grows with the control plane's changes only, not with
	// the node's reports.
	AllocModifyIndex uint64
	CreateTime       int64 // ns since the Unix epoch
	ModifyTime       int64 // ns since the Unix epoch
}

// Reschedule is one replacement of a failed allocation.
type Reschedule struct {
	Time               int64 // ns since the Unix epoch, when the replacement was placed
	Delay              time.Duration
	PreviousAllocation string
	PreviousNode       string
}

// Group returns the task group that the allocation places, or nil when its job
// has none of that name.
func (a *Allocation) Group() *nomad.TaskGroup {
	if a.Job == nil {
		return nil
	}
	return a.Job.LookupTaskGroup(a.TaskGroup)
}

// NetworkMode is the mode of the group's network, with Nomad's names; empty: the node's own.
func (a *Allocation) NetworkMode() string {
	if g := a.Group(); g != nil && len(g.Networks) > 0 && g.Networks[0].Mode != "host" {
		return g.Networks[0].Mode
	}
	return ""
}

// Task returns the group's task of that name, or nil.
func (a *Allocation) Task(name string) *nomad.Task {
	group := a.Group()
	if group == nil {
		return nil
	}
	for _, t := range group.Tasks {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// ServerTerminal reports whether the control plane wants the allocation gone.
func (a *Allocation) ServerTerminal() bool {
	return a.DesiredStatus == DesiredStop || a.DesiredStatus == DesiredEvict
}

// Terminal reports whether the allocation is to stop or has ended.
func (a *Allocation) Terminal() bool {
	return a.ServerTerminal() || a.ClientStatus.Terminal()
}

// WaitsFor calls yield with the IDs of the allocations that have to end before this one
// starts: the one that it replaces, if any, and those that it preempted.
func (a *Allocation) WaitsFor(yield func(id string) bool) {
	if a.PreviousAllocation != "" && !yield(a.PreviousAllocation) {
		return
	}
	for _, id := range a.PreemptedAllocations {
		if id != a.PreviousAllocation && !yield(id) {
			return
		}
	}
}

// Assignments is what changed of the allocations that a node is to know.
type Assignments struct {
	Changed []*Allocation // the oldest first; new ones too
	Gone    []string      // IDs of those that it is not to know any more
	All     bool          // Changed is all that it is to know, and Gone is left empty
	Index   uint64        // up to which this is what happened
	// Standing is the node's, to be told in its [NodeKnowledge].
	Standing *NodeStanding
}

// Copy returns a copy that shares only what is read-only: the job and the metrics.
func (a *Allocation) Copy() *Allocation {
	if a == nil {
		return nil
	}
	c := *a
	c.Resources = a.Resources.Copy()
	c.TaskStates = copyTaskStates(a.TaskStates)
	c.DeploymentStatus = a.DeploymentStatus.Copy()
	c.PreemptedAllocations = slices.Clone(a.PreemptedAllocations)
	return &c
}

// AllocationState is the part of an allocation that the node owns: what its
// runner reports, and what the control plane merges into its [Allocation].
type AllocationState struct {
	ID                string
	ClientStatus      ClientStatus
	ClientDescription string
	TaskStates        map[string]*TaskState
	DeploymentStatus  *DeploymentStatus
	Network           *AllocNetwork `json:",omitempty"` // read-only; nil: it has the node's
}

// Copy returns a copy that shares only what is read-only.
func (s *AllocationState) Copy() *AllocationState {
	if s == nil {
		return nil
	}
	c := *s
	c.TaskStates = copyTaskStates(s.TaskStates)
	c.DeploymentStatus = s.DeploymentStatus.Copy()
	return &c
}

// TaskEnded reports whether a task has ended for good, or the allocation has.
func (s *AllocationState) TaskEnded(task string) bool {
	t := s.TaskStates[task]
	return s.ClientStatus.Terminal() || t != nil && t.State == TaskDead
}

// AllocatedResources is what an allocation was given.
type AllocatedResources struct {
	Tasks  map[string]*TaskResources
	DiskMB int
	Ports  []AllocatedPort
}

// Copy returns a deep copy.
func (r AllocatedResources) Copy() AllocatedResources {
	c := r
	if r.Tasks != nil {
		c.Tasks = make(map[string]*TaskResources, len(r.Tasks))
		for name, t := range r.Tasks {
			c.Tasks[name] = t.Copy()
		}
	}
	c.Ports = slices.Clone(r.Ports)
	return c
}

// MemoryUnlimited is the MemoryMaxMB of a task that may use all memory of its node.
const MemoryUnlimited = -1

// TaskResources is what one task was given.
type TaskResources struct {
	CPUMHz      int
	Cores       []int
	MemoryMB    int
	MemoryMaxMB int // 0: MemoryMB; MemoryUnlimited: what the node has
	Devices     []AllocatedDevice
}

// Copy returns a deep copy.
func (r *TaskResources) Copy() *TaskResources {
	if r == nil {
		return nil
	}
	c := *r
	c.Cores = slices.Clone(r.Cores)
	c.Devices = slices.Clone(r.Devices)
	for i := range c.Devices {
		c.Devices[i].DeviceIDs = slices.Clone(c.Devices[i].DeviceIDs)
	}
	return &c
}

// AllocatedDevice names devices of one group that a task was given.
type AllocatedDevice struct {
	Vendor    string
	Type      string
	Name      string
	DeviceIDs []string
}

// AllocatedPort is one port that an allocation was given.
type AllocatedPort struct {
	Label  string
	HostIP string
	Value  int // on the host
	To     int // in the task; 0: Value
}

// AllocNetwork is the network that an allocation has for itself.
type AllocNetwork struct {
	Mode      string // of the group's network
	Namespace string // the path of its network namespace on the node
	// Interface is the name in the namespace, and Address and AddressIPv6 what it has there;
	// empty: none.
	Interface   string `json:",omitempty"`
	Address     string `json:",omitempty"`
	AddressIPv6 string `json:",omitempty"`
}

// DeploymentStatus is an allocation's health within a deployment.
type DeploymentStatus struct {
	Healthy   *bool
	Timestamp time.Time
	Canary    bool
	// DeploymentID is the deployment that the health was decided for; empty: for none.
	DeploymentID string `json:",omitempty"`
}

// Copy returns a deep copy.
func (d *DeploymentStatus) Copy() *DeploymentStatus {
	if d == nil {
		return nil
	}
	c := *d
	if d.Healthy != nil {
		h := *d.Healthy
		c.Healthy = &h
	}
	return &c
}

// copyTaskStates returns a deep copy; nil stays nil.
func copyTaskStates(states map[string]*TaskState) map[string]*TaskState {
	c := maps.Clone(states)
	for name, s := range c {
		c[name] = s.Copy()
	}
	return c
}

// ClientStatusOf computes an allocation's client status from its tasks' states,
// with Nomad's descriptions: one failed task fails it, else one running task makes
// it running, else one pending task keeps it pending, else it is complete.
// No tasks at all give "".
func ClientStatusOf(states map[string]*TaskState) (status ClientStatus, description string) {
	var pending, running, dead, failed bool
	for _, s := range states {
		switch s.State {
		case TaskRunning:
			running = true
		case TaskPending:
			pending = true
		case TaskDead:
			dead = true
			failed = failed || s.Failed
		}
	}
	switch {
	case failed:
		return ClientFailed, "Failed tasks"
	case running:
		return ClientRunning, "Tasks are running"
	case pending:
		return ClientPending, "No tasks have started"
	case dead:
		return ClientComplete, "All tasks have completed"
	}
	return "", ""
}
