package httpapi

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// What Nomad answers and its API's types do not have: programs other than its own read it. The
// types themselves are what filters look at.

// wireAllocation has null for times that are none.
type wireAllocation struct {
	*nomad.Allocation
	TaskStates map[string]wireTaskState
}

func answeredAllocation(a *structs.Allocation) wireAllocation {
	return wireAllocation{allocation(a), wireTaskStates(a)}
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
}

func wireTaskStates(a *structs.Allocation) map[string]wireTaskState {
	if a.TaskStates == nil {
		return nil
	}
	states := make(map[string]wireTaskState, len(a.TaskStates))
	for name, s := range taskStates(a.TaskStates) {
		states[name] = wireTaskState{s, timeOrNull(s.LastRestart), timeOrNull(s.StartedAt), timeOrNull(s.FinishedAt)}
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
	WaitUntil *time.Time `json:",omitempty"`
}

func answeredEvaluation(e *structs.Evaluation) wireEvaluation {
	out := evaluation(e)
	return wireEvaluation{out, timeOrNull(out.WaitUntil)}
}

// wireNode has the class of nodes that are alike.
type wireNode struct {
	*nomad.Node
	ComputedClass string
}

func answeredNode(n *structs.Node) wireNode {
	return wireNode{node(n), computedClass(n)}
}

// computedClass is the same for nodes that jobs cannot tell apart but by what is theirs alone.
func computedClass(n *structs.Node) string {
	shared := func(m map[string]string) map[string]string {
		m = maps.Clone(m)
		maps.DeleteFunc(m, func(name, _ string) bool { return strings.HasPrefix(name, "unique.") })
		return m
	}
	h := fnv.New64a()
	_ = json.NewEncoder(h).Encode([]any{n.Datacenter, n.Pool, n.Class, shared(n.Attributes), shared(n.Meta), n.Devices}) // all of it is plain
	return fmt.Sprintf("v1:%d", h.Sum64())
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
