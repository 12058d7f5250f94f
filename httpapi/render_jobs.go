package httpapi

import (
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/jobspec"
	"github.com/wasmnode/wasmnode/structs"
)

// jobStub renders a job as the list does.
func jobStub(j *nomad.Job, summary *nomad.JobSummary) *listedJob {
	return &listedJob{NodePool: structs.Deref(j.NodePool), JobListStub: nomad.JobListStub{
		ID:                *j.ID,
		ParentID:          structs.Deref(j.ParentID),
		Name:              *j.Name,
		Namespace:         structs.Deref(j.Namespace),
		Datacenters:       j.Datacenters,
		Type:              *j.Type,
		Priority:          structs.Deref(j.Priority),
		Periodic:          j.Periodic != nil,
		ParameterizedJob:  j.IsParameterized(),
		Stop:              structs.Deref(j.Stop),
		Status:            structs.Deref(j.Status),
		StatusDescription: structs.Deref(j.StatusDescription),
		JobSummary:        summary,
		CreateIndex:       structs.Deref(j.CreateIndex),
		ModifyIndex:       structs.Deref(j.ModifyIndex),
		JobModifyIndex:    structs.Deref(j.JobModifyIndex),
		SubmitTime:        structs.Deref(j.SubmitTime),
	}}
}

// listedJob is a job of a list, with what the type of Nomad's client leaves out.
type listedJob struct {
	nomad.JobListStub
	NodePool    string
	Multiregion *nomad.Multiregion // null: there are no other regions
}

// jobSummary renders the counts of a job's allocations.
func jobSummary(s *structs.JobSummary) *nomad.JobSummary {
	out := &nomad.JobSummary{
		JobID:       s.JobID,
		Namespace:   s.Namespace,
		Summary:     make(map[string]nomad.TaskGroupSummary, len(s.Groups)),
		Children:    &nomad.JobChildrenSummary{Pending: s.Children.Pending, Running: s.Children.Running, Dead: s.Children.Dead},
		CreateIndex: s.CreateIndex,
		ModifyIndex: s.ModifyIndex,
	}
	for name, g := range s.Groups {
		out.Summary[name] = nomad.TaskGroupSummary{
			Queued: g.Queued, Starting: g.Starting, Running: g.Running, Complete: g.Complete, Failed: g.Failed, Lost: g.Lost,
		}
	}
	return out
}

// jobRegistered renders what came of a registration.
func jobRegistered(c *structs.JobChange) *nomad.JobRegisterResponse {
	return &nomad.JobRegisterResponse{
		EvalID: c.EvalID, EvalCreateIndex: c.EvalCreateIndex, JobModifyIndex: c.JobModifyIndex,
		Warnings: jobspec.WarningText(c.Warnings), QueryMeta: nomad.QueryMeta{LastIndex: c.LastIndex},
	}
}

// jobStopped renders what came of a stop.
func jobStopped(c *structs.JobChange) *nomad.JobDeregisterResponse {
	return &nomad.JobDeregisterResponse{
		EvalID: c.EvalID, EvalCreateIndex: c.EvalCreateIndex, JobModifyIndex: c.JobModifyIndex,
		QueryMeta: nomad.QueryMeta{LastIndex: c.LastIndex},
	}
}

// jobDispatched renders what came of a dispatch.
func jobDispatched(d *structs.JobDispatched) *nomad.JobDispatchResponse {
	return &nomad.JobDispatchResponse{
		DispatchedJobID: d.JobID, JobCreateIndex: d.JobCreateIndex, EvalID: d.EvalID, EvalCreateIndex: d.EvalCreateIndex,
		WriteMeta: nomad.WriteMeta{LastIndex: d.LastIndex},
	}
}

// periodicForced is Nomad's answer to a forced launch, of which its client exports no type.
type periodicForced struct {
	EvalID          string
	EvalCreateIndex uint64
	Index           uint64
}

// evaluation renders an evaluation.
func evaluation(e *structs.Evaluation) *nomad.Evaluation {
	out := &nomad.Evaluation{
		ID:                e.ID,
		Priority:          e.Priority,
		Type:              e.Type,
		TriggeredBy:       e.TriggeredBy,
		Namespace:         e.Namespace,
		JobID:             e.JobID,
		JobModifyIndex:    e.JobModifyIndex,
		DeploymentID:      e.DeploymentID,
		Status:            string(e.Status),
		StatusDescription: e.StatusDescription,
		WaitUntil:         e.WaitUntil,
		NextEval:          e.NextEval,
		PreviousEval:      e.PreviousEval,
		BlockedEval:       e.BlockedEval,
		PlanAnnotations:   planAnnotations(e.PlanAnnotations),
		QueuedAllocations: e.QueuedAllocations,
		SnapshotIndex:     e.SnapshotIndex,
		CreateIndex:       e.CreateIndex,
		ModifyIndex:       e.ModifyIndex,
		CreateTime:        e.CreateTime,
		ModifyTime:        e.ModifyTime,
	}
	if e.FailedTGAllocs != nil {
		out.FailedTGAllocs = make(map[string]*nomad.AllocationMetric, len(e.FailedTGAllocs))
		for name, m := range e.FailedTGAllocs {
			out.FailedTGAllocs[name] = placementMetrics(m)
		}
	}
	return out
}

// evaluationStub renders an evaluation as it is listed beside another.
func evaluationStub(e *structs.Evaluation) *nomad.EvaluationStub {
	return &nomad.EvaluationStub{
		ID:                e.ID,
		Priority:          e.Priority,
		Type:              e.Type,
		TriggeredBy:       e.TriggeredBy,
		Namespace:         e.Namespace,
		JobID:             e.JobID,
		DeploymentID:      e.DeploymentID,
		Status:            string(e.Status),
		StatusDescription: e.StatusDescription,
		WaitUntil:         e.WaitUntil,
		NextEval:          e.NextEval,
		PreviousEval:      e.PreviousEval,
		BlockedEval:       e.BlockedEval,
		CreateIndex:       e.CreateIndex,
		ModifyIndex:       e.ModifyIndex,
		CreateTime:        e.CreateTime,
		ModifyTime:        e.ModifyTime,
	}
}

func planAnnotations(p *structs.PlanAnnotations) *nomad.PlanAnnotations {
	if p == nil {
		return nil
	}
	out := &nomad.PlanAnnotations{}
	for _, id := range p.PreemptedAllocs {
		out.PreemptedAllocs = append(out.PreemptedAllocs, &nomad.AllocationListStub{ID: id})
	}
	if p.DesiredTGUpdates != nil {
		out.DesiredTGUpdates = make(map[string]*nomad.DesiredUpdates, len(p.DesiredTGUpdates))
	}
	for name, u := range p.DesiredTGUpdates {
		out.DesiredTGUpdates[name] = &nomad.DesiredUpdates{
			Ignore: u.Ignore, Place: u.Place, Stop: u.Stop, InPlaceUpdate: u.InPlaceUpdate,
			DestructiveUpdate: u.DestructiveUpdate, Migrate: u.Migrate, Canary: u.Canary, RescheduleNow: u.RescheduleNow, RescheduleLater: u.RescheduleLater,
			Preemptions: u.Preemptions,
		}
	}
	return out
}

// placementMetrics renders what the scheduler looked at. Nomad's command line panics
// where there is none.
func placementMetrics(m *structs.PlacementMetrics) *nomad.AllocationMetric {
	if m == nil {
		return &nomad.AllocationMetric{}
	}
	var scores []*nomad.NodeScoreMeta
	for _, s := range m.ScoreMetaData {
		scores = append(scores, &nomad.NodeScoreMeta{NodeID: s.NodeID, Scores: s.Scores, NormScore: s.NormScore})
	}
	return &nomad.AllocationMetric{
		ScoreMetaData:      scores,
		NodesEvaluated:     m.NodesEvaluated,
		NodesFiltered:      m.NodesFiltered,
		NodesInPool:        m.NodesInPool,
		NodePool:           m.NodePool,
		NodesAvailable:     m.NodesAvailable,
		ConstraintFiltered: m.ConstraintFiltered,
		NodesExhausted:     m.NodesExhausted,
		DimensionExhausted: m.DimensionExhausted,
		CoalescedFailures:  m.CoalescedFailures,
	}
}
