package structs

import (
	"maps"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

// The descriptions of a deployment's status, with Nomad's words.
const (
	DeploymentIsRunning          = "Deployment is running"
	DeploymentNeedsPromotion     = "Deployment is running but requires manual promotion"
	DeploymentAwaitsPromotion    = "Deployment is running pending automatic promotion"
	DeploymentIsPaused           = "Deployment is paused"
	DeploymentSucceeded          = "Deployment completed successfully"
	DeploymentJobStopped         = "Cancelled because job is stopped"
	DeploymentSuperseded         = "Cancelled due to newer version of job"
	DeploymentMarkedFailed       = "Deployment marked as failed"
	DeploymentAllocsUnhealthy    = "Failed due to unhealthy allocations"
	DeploymentNoProgressDeadline = "Failed due to progress deadline"
)

// DeploymentLost is the description of a deployment that takes the place of one that the
// control plane has lost: a person decides whether it goes on.
const DeploymentLost = "Deployment is paused: it was lost with the control plane's memory, and a person decides whether it goes on"

// Deployment is how one version of a service or system job takes the place of the one before, and how far
// it has come. It is stored as JSON with the names of Nomad's API. Stored values are never
// changed.
type Deployment struct {
	ID         string
	Namespace  string
	JobID      string
	JobVersion uint64
	// JobSpecModifyIndex is the version's JobModifyIndex, which names it.
	JobSpecModifyIndex uint64
	JobCreateIndex     uint64
	EvalPriority       int
	TaskGroups         map[string]*DeploymentGroup
	// Status is one of the nomad.DeploymentStatus… constants.
	Status            string
	StatusDescription string
	CreateIndex       uint64
	ModifyIndex       uint64
	CreateTime        int64 // ns since the Unix epoch
	ModifyTime        int64 // ns since the Unix epoch
}

// DeploymentGroup is a deployment's state for one task group.
type DeploymentGroup struct {
	AutoRevert       bool
	AutoPromote      bool
	ProgressDeadline time.Duration // 0: the first unhealthy allocation fails the deployment
	// RequireProgressBy is when the deployment fails unless another allocation has become
	// healthy; zero: nothing was placed yet, or there is no such time.
	RequireProgressBy time.Time
	Promoted          bool
	PlacedCanaries    []string // IDs
	DesiredCanaries   int
	DesiredTotal      int
	// Of the allocations that were ever part of the deployment, those that ended too.
	PlacedAllocs, HealthyAllocs, UnhealthyAllocs int
	// StandingAllocs are the healthy ones that have not ended and are not to.
	StandingAllocs int
}

// Progress puts the time off at which the deployment fails.
func (g *DeploymentGroup) Progress(now time.Time) {
	if g.ProgressDeadline > 0 {
		g.RequireProgressBy = now.Add(g.ProgressDeadline).UTC()
	}
}

// Active reports whether the deployment goes on, or can.
func (d *Deployment) Active() bool {
	switch d.Status {
	case nomad.DeploymentStatusRunning, nomad.DeploymentStatusPaused, nomad.DeploymentStatusPending,
		nomad.DeploymentStatusBlocked, nomad.DeploymentStatusUnblocking:
		return true
	}
	return false
}

// Canarying reports whether a group's canaries are to be promoted before its other
// allocations are replaced.
func (g *DeploymentGroup) Canarying() bool { return g.DesiredCanaries > 0 && !g.Promoted }

// RequiresPromotion reports whether a group waits for a promotion.
func (d *Deployment) RequiresPromotion() bool {
	for _, g := range d.TaskGroups {
		if g.Canarying() {
			return true
		}
	}
	return false
}

// AutoPromotes reports whether every group that waits for a promotion gets it by itself.
func (d *Deployment) AutoPromotes() bool {
	for _, g := range d.TaskGroups {
		if g.Canarying() && !g.AutoPromote {
			return false
		}
	}
	return true
}

// AutoReverts reports whether the job goes back to its last stable version when the
// deployment fails, whatever group is the reason.
func (d *Deployment) AutoReverts() bool {
	for _, g := range d.TaskGroups {
		if g.AutoRevert {
			return true
		}
	}
	return false
}

// Running is the status description of a deployment that runs.
func (d *Deployment) Running() string {
	switch {
	case !d.RequiresPromotion():
		return DeploymentIsRunning
	case d.AutoPromotes():
		return DeploymentAwaitsPromotion
	}
	return DeploymentNeedsPromotion
}

// DeploymentChange is what came of a person's change of a deployment.
type DeploymentChange struct {
	EvalID             string // empty: none was needed
	EvalCreateIndex    uint64
	ModifyIndex        uint64 // of the deployment
	RevertedJobVersion *uint64
}

// Copy returns a deep copy.
func (d *Deployment) Copy() *Deployment {
	c := *d
	c.TaskGroups = maps.Clone(d.TaskGroups)
	for name, g := range c.TaskGroups {
		group := *g
		group.PlacedCanaries = slices.Clone(g.PlacedCanaries)
		c.TaskGroups[name] = &group
	}
	return &c
}
