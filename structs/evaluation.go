package structs

import (
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

// JobRegistration asks for a job to be registered.
type JobRegistration struct {
	Job        *nomad.Job
	Submission *nomad.JobSubmission // the job's source; optional
	// EnforceIndex refuses the registration unless JobModifyIndex is the registered
	// job's; 0: there is to be none.
	EnforceIndex   bool
	JobModifyIndex uint64
	// EvalPriority is the evaluation's, 1 to 100, in place of the job's; 0: it is that.
	EvalPriority int
	// PreserveCounts has the groups that are registered keep their counts, and
	// PreserveResources their tasks what they ask for, whatever Job says.
	PreserveCounts, PreserveResources bool
}

// JobStop asks for a job's end.
type JobStop struct {
	Namespace, JobID string
	Purge            bool // it is forgotten, too
	NoShutdownDelay  bool // its allocations end without their shutdown delays
	EvalPriority     int  // as a registration's
}

// JobChange is what came of a job's registration or stop.
type JobChange struct {
	EvalID          string
	EvalCreateIndex uint64
	JobModifyIndex  uint64
	LastIndex       uint64
	Warnings        []string
}

// JobDispatch asks for a child of a parameterized job.
type JobDispatch struct {
	Namespace, JobID string
	Payload          []byte
	Meta             map[string]string
	IDPrefix         string // of what follows "dispatch-" in the child's ID; optional
	IdempotencyToken string // optional
	Priority         int    // 0: the job's
}

// JobDispatched is what came of it. A child that was there already, or that is launched at
// times, has no evaluation.
type JobDispatched struct {
	JobID           string
	JobCreateIndex  uint64
	EvalID          string
	EvalCreateIndex uint64
	LastIndex       uint64
}

// ChildrenSummary counts a job's children by status; the dead ones are also those that are
// not stored any more.
type ChildrenSummary struct {
	Pending, Running, Dead int64
}

// JobSummary counts a job's allocations by task group.
type JobSummary struct {
	Namespace   string
	JobID       string
	Groups      map[string]GroupSummary
	Children    ChildrenSummary
	CreateIndex uint64
	ModifyIndex uint64
}

// GroupSummary counts a task group's allocations by client status. Queued ones have no
// place yet.
type GroupSummary struct {
	Queued, Starting, Running, Complete, Failed, Lost int
}

// EvaluationStatus is an evaluation's state.
type EvaluationStatus string

// The statuses of an evaluation, with Nomad's names.
const (
	EvaluationPending   EvaluationStatus = "pending" // due at WaitUntil
	EvaluationBlocked   EvaluationStatus = "blocked" // waits for room
	EvaluationComplete  EvaluationStatus = "complete"
	EvaluationCancelled EvaluationStatus = "canceled"
)

// Evaluation is one look of the scheduler at a job, and what it decided. It is stored as
// JSON with the names of Nomad's API. Stored values are never changed.
type Evaluation struct {
	ID                string
	Priority          int
	Type              string
	TriggeredBy       string
	Namespace         string
	JobID             string
	JobModifyIndex    uint64
	DeploymentID      string // of the job's version; empty: there is none
	Status            EvaluationStatus
	StatusDescription string
	WaitUntil         time.Time
	NextEval          string
	PreviousEval      string
	BlockedEval       string
	// FailedTGAllocs has, by task group, why something has no place.
	FailedTGAllocs    map[string]*PlacementMetrics
	PlanAnnotations   *PlanAnnotations
	QueuedAllocations map[string]int // by task group
	SnapshotIndex     uint64
	// ForceReschedule replaces allocations that failed whatever their policy says.
	ForceReschedule bool `json:",omitempty"`
	CreateIndex     uint64
	ModifyIndex     uint64
	CreateTime      int64 // ns since the Unix epoch
	ModifyTime      int64 // ns since the Unix epoch
}

// PlanAnnotations counts, by task group, what an evaluation changes.
type PlanAnnotations struct {
	DesiredTGUpdates map[string]*DesiredUpdates
	PreemptedAllocs  []string `json:",omitempty"` // IDs
}

// DesiredUpdates counts what an evaluation does with a task group's allocations.
type DesiredUpdates struct {
	Ignore            uint64
	Place             uint64
	Migrate           uint64
	Stop              uint64
	InPlaceUpdate     uint64
	DestructiveUpdate uint64
	Canary            uint64
	Preemptions       uint64
	RescheduleNow     uint64
	RescheduleLater   uint64
}

// NodeScore is how well a node suits an allocation: each score, and their mean, is from -1 to 1.
type NodeScore struct {
	NodeID    string
	Scores    map[string]float64 // by what was judged, with Nomad's names
	NormScore float64
}

// PlacementMetrics is what the scheduler looked at for one placement. It is stored as
// JSON with the names of Nomad's API.
type PlacementMetrics struct {
	NodesEvaluated     int
	NodesFiltered      int
	NodesInPool        int
	NodePool           string
	NodesAvailable     map[string]int // by datacenter
	ConstraintFiltered map[string]int // by constraint
	NodesExhausted     int
	DimensionExhausted map[string]int // by resource
	CoalescedFailures  int            // further placements that failed for the same reasons
	ScoreMetaData      []*NodeScore   `json:",omitempty"` // of the nodes that suit best, the best first
}
