package schedule

import (
	"maps"
	"math"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// Room is what is free on each node. It answers faster than a decision whether that would be
// the same as the last.
type Room struct {
	nodes []*structs.Node
	cap   *capacity
	// Lowest is the priority of the least important job that has an allocation which is to run.
	Lowest int
}

// NewRoom returns what is free, by the Nodes, Others and Taken of an input.
func NewRoom(in Input) *Room {
	r := &Room{nodes: in.Nodes, cap: newCapacity(in), Lowest: math.MaxInt - MinPreemption}
	for _, taken := range in.Taken {
		r.Lowest = min(r.Lowest, taken.lowest())
	}
	for _, a := range in.Others {
		if !a.Terminal() {
			r.Lowest = min(r.Lowest, priorityOf(a.Job))
		}
	}
	return r
}

// StillLacks reports whether no node has room for another allocation of a group that
// replaces none, for the same reasons as it was told.
func (r *Room) StillLacks(g *nomad.TaskGroup, told *structs.PlacementMetrics) bool {
	exhausted := map[string]int{}
	for _, n := range r.nodes {
		_, dimension := r.cap.fit(n, &claim{}, "", g)
		if dimension == "" {
			return false
		}
		exhausted[dimension]++
	}
	return len(exhausted) > 0 && maps.Equal(exhausted, told.DimensionExhausted)
}
