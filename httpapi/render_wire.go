package httpapi

import (
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// What Nomad answers and its API's types do not have: programs other than its own read it. The
// types themselves are what filters look at.

// wireAllocation has null for times that are none, and resources as Nomad's servers and its old
// clients have them.
type wireAllocation struct {
	*nomad.Allocation
	TaskStates         map[string]wireTaskState
	SharedResources    *nomad.Resources
	AllocatedResources wireAllocatedResources
	NetworkStatus      *nomad.AllocNetworkStatus
}

func answeredAllocation(a *structs.Allocation) wireAllocation {
	out := allocation(a)
	shared := resources(&structs.TaskResources{}, a.Resources.DiskMB)
	shared.Networks = out.Resources.Networks
	w := wireAllocation{out, wireTaskStates(a), shared, wireAllocated(a, out.AllocatedResources), out.NetworkStatus}
	if w.NetworkStatus == nil && a.ClientStatus != structs.ClientPending {
		w.NetworkStatus = &nomad.AllocNetworkStatus{} // the node's own
	}
	return w
}

type wireAllocatedResources struct {
	Tasks          map[string]wireTaskResources
	TaskLifecycles map[string]*nomad.TaskLifecycle
	Shared         nomad.AllocatedSharedResources
}

type wireTaskResources struct {
	*nomad.AllocatedTaskResources
	Cpu wireTaskCPU
}

type wireTaskCPU struct {
	nomad.AllocatedCpuResources
	ReservedCores []int
}

func wireAllocated(a *structs.Allocation, r *nomad.AllocatedResources) wireAllocatedResources {
	out := wireAllocatedResources{make(map[string]wireTaskResources, len(r.Tasks)), make(map[string]*nomad.TaskLifecycle, len(r.Tasks)), r.Shared}
	for name, t := range r.Tasks {
		out.Tasks[name] = wireTaskResources{t, wireTaskCPU{t.Cpu, a.Resources.Tasks[name].Cores}}
		out.TaskLifecycles[name] = nil
		if task := a.Task(name); task != nil {
			out.TaskLifecycles[name] = task.Lifecycle
		}
	}
	return out
}

// wireStub says, besides, what is to become of an allocation.
type wireStub struct {
	*nomad.AllocationListStub
	TaskStates        map[string]wireTaskState
	DesiredTransition nomad.DesiredTransition
}

func answeredStub(a *structs.Allocation) wireStub {
	return wireStub{allocationStub(a), wireTaskStates(a), desiredTransition(a)}
}

type wireTaskState struct {
	*nomad.TaskState
	LastRestart *time.Time
	StartedAt   *time.Time
	FinishedAt  *time.Time
	Paused      string // by a schedule, which no task has here: empty
}

func wireTaskStates(a *structs.Allocation) map[string]wireTaskState {
	if a.TaskStates == nil {
		return nil
	}
	states := make(map[string]wireTaskState, len(a.TaskStates))
	for name, s := range taskStates(a.TaskStates) {
		states[name] = wireTaskState{s, timeOrNull(s.LastRestart), timeOrNull(s.StartedAt), timeOrNull(s.FinishedAt), ""}
	}
	return states
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// wireDeployment has its evaluations' priority, and which of its groups promote themselves.
type wireDeployment struct {
	*nomad.Deployment
	EvalPriority int
	TaskGroups   map[string]wireDeploymentState
}

type wireDeploymentState struct {
	*nomad.DeploymentState
	AutoPromote bool
}

func answeredDeployment(d *structs.Deployment) wireDeployment {
	out := wireDeployment{deployment(d), d.EvalPriority, make(map[string]wireDeploymentState, len(d.TaskGroups))}
	for name, g := range d.TaskGroups {
		out.TaskGroups[name] = wireDeploymentState{out.Deployment.TaskGroups[name], g.AutoPromote}
	}
	return out
}

// wireEvaluation leaves a time out that there is none of.
type wireEvaluation struct {
	*nomad.Evaluation
	WaitUntil    *time.Time           `json:",omitempty"`
	RelatedEvals []wireEvaluationStub `json:",omitempty"`
}

// wireEvaluationStub has null for a time that there is none of.
type wireEvaluationStub struct {
	*nomad.EvaluationStub
	WaitUntil *time.Time
}

// wirePlan has null for a launch that there is none of.
type wirePlan struct {
	*nomad.JobPlanResponse
	NextPeriodicLaunch *time.Time
}

func answeredEvaluation(e *structs.Evaluation) wireEvaluation {
	out := evaluation(e)
	return wireEvaluation{out, timeOrNull(out.WaitUntil), nil}
}

// wirePool has the time that an identity of its nodes is good for in nanoseconds.
type wirePool struct {
	*poolFields
	NodeIdentityTTL time.Duration
}

type poolFields nomad.NodePool

func answeredPool(p *nomad.NodePool) wirePool {
	return wirePool{(*poolFields)(p), p.NodeIdentityTTL}
}
