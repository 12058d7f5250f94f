package httpapi

import (
	"net/http"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

func (h *handler) scalingRoutes() {
	h.get("/v1/scaling/policies", tableJobs, h.listScalingPolicies)
	h.get("/v1/scaling/policy/{id}", tableJobs, h.readScalingPolicy)
}

func (h *handler) scaleJob(r *http.Request, q *query, id string) (any, error) {
	var req nomad.ScalingRequest
	if err := decodeForJob(r, &req, func() string { return req.Target["Job"] }, id); err != nil {
		return nil, err
	}
	change, err := h.ControlPlane.ScaleJob(q.namespace, id, &req)
	if err != nil {
		return nil, err
	}
	return jobRegistered(change), nil
}

// jobScale renders the counts of a job's groups, and how they were scaled.
func (h *handler) jobScale(job *nomad.Job) *nomad.JobScaleStatusResponse {
	out := &nomad.JobScaleStatusResponse{
		JobID:          *job.ID,
		Namespace:      *job.Namespace,
		JobCreateIndex: *job.CreateIndex,
		JobModifyIndex: *job.JobModifyIndex,
		JobStopped:     *job.Stop,
		TaskGroups:     map[string]nomad.TaskGroupScaleStatus{},
	}
	scalings := h.ControlPlane.JobScalings(*job.Namespace, *job.ID)
	for _, g := range job.TaskGroups {
		out.TaskGroups[*g.Name] = nomad.TaskGroupScaleStatus{Desired: *g.Count, Events: scalings[*g.Name]}
	}
	for _, a := range h.ControlPlane.JobAllocations(*job.Namespace, *job.ID) {
		s, is := out.TaskGroups[a.TaskGroup]
		if !is || a.Terminal() {
			continue
		}
		s.Placed++
		if a.ClientStatus == structs.ClientRunning {
			s.Running++
		}
		if d := a.DeploymentStatus; d != nil && d.Healthy != nil {
			if *d.Healthy {
				s.Healthy++
			} else {
				s.Unhealthy++
			}
		}
		out.TaskGroups[a.TaskGroup] = s
	}
	return out
}

func (h *handler) listScalingPolicies(r *http.Request, q *query) (answer, error) {
	job, kind := r.URL.Query().Get("job"), r.URL.Query().Get("type")
	stubs := []*nomad.ScalingPolicyListStub{}
	for _, p := range h.ControlPlane.ScalingPolicies() {
		if !q.inNamespace(p.Namespace) || job != "" && p.Target["Job"] != job || kind != "" && p.Type != kind || !q.hasUUIDPrefix(p.ID) {
			continue
		}
		stubs = append(stubs, &nomad.ScalingPolicyListStub{
			ID: p.ID, Enabled: structs.Deref(p.Enabled), Type: p.Type, Target: p.Target,
			CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex,
		})
	}
	return answer{body: stubs}, nil
}

func (h *handler) readScalingPolicy(r *http.Request, _ *query) (answer, error) {
	for _, p := range h.ControlPlane.ScalingPolicies() {
		if p.ID == r.PathValue("id") {
			return answer{body: &nomad.ScalingPolicy{
				Min: p.Min, Max: p.Max, Policy: p.Policy, Enabled: p.Enabled, Type: p.Type,
				ID: p.ID, Namespace: p.Namespace, Target: p.Target, CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex,
			}, index: p.ModifyIndex}, nil
		}
	}
	return answer{}, notFound("policy not found")
}
