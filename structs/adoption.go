package structs

import (
	"cmp"
	"fmt"
)

// NodeKnowledge is what a node knows of a control plane's decisions: enough to rebuild what
// the control plane has lost.
type NodeKnowledge struct {
	// ControlPlane is the ID of the control plane's memory that the node heard last; empty:
	// not known.
	ControlPlane string
	// Index is the index of the newest decision that the node has heard of.
	Index uint64
	// Standing is what the node was told of itself at that index; nil: nothing.
	Standing *NodeStanding
	// Allocations are those that the node has, also ended ones, each with its state as far
	// as that is known.
	Allocations []KnownAllocation
	// Found are the IDs of allocations of which something runs on the node, which knows
	// nothing more of them.
	Found []string
	// Unreadable are the IDs of allocations that the node has and cannot read.
	Unreadable []string
}

// KnownAllocation is an allocation as its node knows it. Read-only.
type KnownAllocation struct {
	*Allocation
	State *AllocationState // nil: not known
}

// Adoption is what a control plane made of what a node knows.
type Adoption struct {
	// ControlPlane is the ID of the control plane's memory.
	ControlPlane string
	// Index is the control plane's, of its newest change.
	Index uint64
	// Why is what was wrong with the control plane's memory; empty: nothing.
	Why string
	// Adopted are the IDs of allocations that the control plane had not known.
	Adopted []string
	// Jobs are the IDs of jobs that it had not known, or not in that version.
	Jobs []string
	// Stopped are the IDs of jobs that it wanted to run and that have ended on the node since
	// its memory is from: they are stopped.
	Stopped []string
	// Released are the IDs of allocations that the control plane let go of: the node may
	// forget them.
	Released []string
	// Waiting are the allocations on which a person has to decide, with the reason, by ID.
	Waiting map[string]string
}

// Unclaimed is something that a node keeps and lets run although the control plane does not
// know of it: a person decides.
type Unclaimed struct {
	// AllocID is the allocation's ID, or what its workloads are named after.
	AllocID string
	// Namespace, JobID and TaskGroup are empty if they are not known.
	Namespace, JobID, TaskGroup string
	// Workloads are the IDs of those that run and that no task claims.
	Workloads []string
	// Reason is one line: what is not known.
	Reason string
	// Adoptable: it can be adopted; otherwise it can only be discarded.
	Adoptable bool
}

// maxNamed is how many jobs a line for people names.
const maxNamed = 5

// String is one line for people, of bounded length: what was wrong and what came of it.
func (a *Adoption) String() string {
	text := cmp.Or(a.Why, "the control plane did not know all that the node has")
	text += fmt.Sprintf("; rebuilt from what the node knows: %s, %s", counted(len(a.Jobs), "job"), counted(len(a.Adopted), "allocation"))
	if len(a.Stopped) > 0 {
		named := a.Stopped[:min(len(a.Stopped), maxNamed)]
		text += fmt.Sprintf("; ended since, and stopped: %q", named)
		if more := len(a.Stopped) - len(named); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	if len(a.Waiting) > 0 {
		text += "; waiting for `wasmnode operator adopt` or `discard`: " + counted(len(a.Waiting), "allocation")
	}
	return text
}

// counted is so many of something.
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
