package structs

import (
	"maps"
	"time"
)

// Drain is how a node is being emptied. Stored values are never changed.
type Drain struct {
	// Deadline is how long allocations may go on; 0: as long as they like, below 0: not
	// at all.
	Deadline time.Duration
	// IgnoreSystemJobs leaves the allocations of system jobs where they are.
	IgnoreSystemJobs bool
	StartedAt        time.Time
	// ForceDeadline is when what is left is stopped; zero: there is no such time.
	ForceDeadline time.Time
}

// Over reports whether a drain's deadline has passed.
func (d *Drain) Over(now time.Time) bool {
	return d.Deadline < 0 || !d.ForceDeadline.IsZero() && !d.ForceDeadline.After(now)
}

// DrainStatus is what became of a drain.
type DrainStatus string

// The statuses of a drain, with Nomad's names.
const (
	DrainDraining DrainStatus = "draining"
	DrainComplete DrainStatus = "complete"
	DrainCanceled DrainStatus = "canceled"
)

// LastDrain is the newest drain of a node, also after its end. Stored values are never
// changed.
type LastDrain struct {
	StartedAt  time.Time
	UpdatedAt  time.Time
	Status     DrainStatus
	AccessorID string            // of the ACL token that asked for it last; empty: none
	Meta       map[string]string // what who asked for it said of it
}

// Copy returns a deep copy.
func (d *LastDrain) Copy() *LastDrain {
	if d == nil {
		return nil
	}
	c := *d
	c.Meta = maps.Clone(d.Meta)
	return &c
}

// NodeStanding is what people have decided about a node: whether it takes allocations, and
// its drain. Read-only.
type NodeStanding struct {
	Eligibility string
	Drain       *Drain     `json:",omitempty"` // nil: it is not being drained
	LastDrain   *LastDrain `json:",omitempty"` // nil: it never was
}

// DrainRequest asks for a node to be drained, or not to be any more.
type DrainRequest struct {
	NodeID string
	// Drain is nil to end a drain. Its times are set by the control plane.
	Drain *Drain
	// MarkEligible has the node take allocations again when a drain is ended.
	MarkEligible bool
	Meta         map[string]string
	AccessorID   string
}

// NodeChange is what came of a change of a node.
type NodeChange struct {
	NodeModifyIndex uint64
	EvalIDs         []string
	EvalCreateIndex uint64 // of the first; 0: there is none
}
