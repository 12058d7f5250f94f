package standalone

import "github.com/wasmnode/wasmnode/controlplane/standalone/schedule"

// totals is an index of what allocations take of each node, as a transaction sees it.
type totals struct {
	base map[string]*schedule.Taken // by node ID, of the committed rows
	here map[string]*schedule.Taken // on top of that, what the transaction makes of it
}

// addUp adds the index to a transaction's allocations, as [groupBy] does.
func addUp(allocs *changes[string, *schedule.Alloc], base map[string]*schedule.Taken) *totals {
	x := &totals{base: base, here: map[string]*schedule.Taken{}}
	allocs.indexes = append(allocs.indexes, x)
	return x
}

// on returns what is taken of a node. It follows the transaction's changes.
func (x *totals) on(nodeID string) *schedule.Taken {
	if x.here[nodeID] == nil {
		x.here[nodeID] = schedule.NewTaken(x.base[nodeID])
	}
	return x.here[nodeID]
}

func (x *totals) staged(_ string, a *schedule.Alloc, in bool) {
	if schedule.InTotal(a.Allocation) {
		tally(x.on(a.NodeID), a, in)
	}
}

func (x *totals) committed(_ string, a *schedule.Alloc, in bool) {
	if !schedule.InTotal(a.Allocation) {
		return
	}
	if x.base[a.NodeID] == nil {
		x.base[a.NodeID] = schedule.NewTaken(nil)
	}
	tally(x.base[a.NodeID], a, in)
}

func tally(taken *schedule.Taken, a *schedule.Alloc, in bool) {
	if in {
		taken.Add(a.Allocation)
	} else {
		taken.Remove(a.Allocation)
	}
}
