package structs

import (
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

// JobPlan is what registering a job would do.
type JobPlan struct {
	// Old is the registered job, nil when there is none, and New what it would become.
	Old, New *nomad.Job
	// JobModifyIndex is the registered job's; 0: there is none.
	JobModifyIndex uint64
	// Evaluation is what the scheduler would decide. It is not stored.
	Evaluation *Evaluation
	// Preempted are the allocations of other jobs that would make room.
	Preempted []*Allocation
	// Destroyed names, by group, the tasks that would be stopped and started again for
	// what changes of them.
	Destroyed map[string][]string
	// NextLaunch is when a periodic job would run next; zero: not.
	NextLaunch time.Time
	Warnings   []string
}
