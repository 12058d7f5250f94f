package httpapi

import (
	"cmp"
	"net/http"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

func (h *handler) deploymentRoutes() {
	h.get("/v1/deployments", tableDeployments, h.listDeployments)
	h.get("/v1/deployment/{id}", tableDeployments, h.readDeployment)
	h.get("/v1/deployment/allocations/{id}", tableAllocations, h.deploymentAllocations)
	h.put("/v1/deployment/promote/{id}", changingDeployment(func(id string, req *nomad.DeploymentPromoteRequest) (*structs.DeploymentChange, error) {
		if !req.All && len(req.Groups) == 0 {
			return nil, badRequest("no canaries to promote: name groups, or all")
		}
		return h.ControlPlane.PromoteDeployment(id, promoted(req))
	}))
	h.put("/v1/deployment/pause/{id}", changingDeployment(func(id string, req *nomad.DeploymentPauseRequest) (*structs.DeploymentChange, error) {
		return h.ControlPlane.PauseDeployment(id, req.Pause)
	}))
	h.put("/v1/deployment/fail/{id}", changingDeployment(func(id string, _ *nomad.DeploymentFailRequest) (*structs.DeploymentChange, error) {
		return h.ControlPlane.FailDeployment(id)
	}))
	h.put("/v1/deployment/unblock/{id}", changingDeployment(func(id string, _ *nomad.DeploymentUnblockRequest) (*structs.DeploymentChange, error) {
		return h.ControlPlane.UnblockDeployment(id)
	}))
	h.put("/v1/deployment/allocation-health/{id}", changingDeployment(func(id string, req *nomad.DeploymentAllocHealthRequest) (*structs.DeploymentChange, error) {
		return h.ControlPlane.SetAllocationHealth(id, req.HealthyAllocationIDs, req.UnhealthyAllocationIDs)
	}))
}

// promoted are the groups to promote; none: all.
func promoted(req *nomad.DeploymentPromoteRequest) []string {
	if req.All {
		return nil
	}
	return req.Groups
}

// changingDeployment answers a change of the deployment that a path names. The ID in a
// request's body is not needed: Nomad's clients send the same.
func changingDeployment[R any](change func(id string, req *R) (*structs.DeploymentChange, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		var req R
		if err := decode(r, &req); err != nil {
			return nil, err
		}
		c, err := change(r.PathValue("id"), &req)
		if err != nil {
			return nil, err
		}
		return &nomad.DeploymentUpdateResponse{
			EvalID: c.EvalID, EvalCreateIndex: c.EvalCreateIndex,
			DeploymentModifyIndex: c.ModifyIndex, RevertedJobVersion: c.RevertedJobVersion,
			WriteMeta: nomad.WriteMeta{LastIndex: c.ModifyIndex},
		}, nil
	}
}

func (h *handler) listDeployments(_ *http.Request, q *query) (answer, error) {
	list := slices.DeleteFunc(h.ControlPlane.Deployments(), func(d *structs.Deployment) bool {
		return !q.inNamespace(d.Namespace) || !q.hasUUIDPrefix(d.ID)
	})
	slices.SortFunc(list, func(a, b *structs.Deployment) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.ID, b.ID))
	})
	all, next, err := page(q, list,
		func(d *structs.Deployment) string { return d.ID },
		func(d *structs.Deployment) any { return deployment(d) },
		answeredDeployment)
	return answer{body: all, next: next}, err
}

func (h *handler) readDeployment(r *http.Request, _ *query) (answer, error) {
	d := h.ControlPlane.Deployment(r.PathValue("id"))
	if d == nil {
		return answer{}, notFound("deployment not found")
	}
	return answer{body: answeredDeployment(d), index: d.ModifyIndex}, nil
}

func (h *handler) deploymentAllocations(r *http.Request, _ *query) (answer, error) {
	stubs := []wireStub{}
	if d := h.ControlPlane.Deployment(r.PathValue("id")); d != nil {
		for _, a := range h.ControlPlane.JobAllocations(d.Namespace, d.JobID) {
			if a.DeploymentID == d.ID {
				stubs = append(stubs, answeredStub(a))
			}
		}
	}
	return answer{body: stubs}, nil
}

// jobDeployments answers with those of the job, without those of an earlier one with its
// ID that was purged, unless they are asked for.
func (h *handler) jobDeployments(r *http.Request, q *query) (answer, error) {
	all, err := boolParameter(r, "all")
	if err != nil {
		return answer{}, err
	}
	list := []wireDeployment{}
	for _, d := range h.deploymentsOf(r, q, all) {
		list = append(list, answeredDeployment(d))
	}
	return answer{body: list}, nil
}

// jobDeployment answers with the job's last deployment, null when there is none.
func (h *handler) jobDeployment(r *http.Request, q *query) (answer, error) {
	list := h.deploymentsOf(r, q, false)
	if len(list) == 0 {
		return answer{}, nil
	}
	return answer{body: answeredDeployment(list[0]), index: list[0].ModifyIndex}, nil
}

// deploymentsOf are those of the job that a path names, newest first.
func (h *handler) deploymentsOf(r *http.Request, q *query, all bool) []*structs.Deployment {
	id, _ := jobPath(r)
	job := h.ControlPlane.Job(q.namespace, id)
	return slices.DeleteFunc(h.ControlPlane.JobDeployments(q.namespace, id), func(d *structs.Deployment) bool {
		return !all && job != nil && d.JobCreateIndex != *job.CreateIndex
	})
}

// deployment renders a deployment.
func deployment(d *structs.Deployment) *nomad.Deployment {
	out := &nomad.Deployment{
		ID:                 d.ID,
		Namespace:          d.Namespace,
		JobID:              d.JobID,
		JobVersion:         d.JobVersion,
		JobModifyIndex:     d.JobSpecModifyIndex,
		JobSpecModifyIndex: d.JobSpecModifyIndex,
		JobCreateIndex:     d.JobCreateIndex,
		TaskGroups:         make(map[string]*nomad.DeploymentState, len(d.TaskGroups)),
		Status:             d.Status,
		StatusDescription:  d.StatusDescription,
		CreateIndex:        d.CreateIndex,
		ModifyIndex:        d.ModifyIndex,
		CreateTime:         d.CreateTime,
		ModifyTime:         d.ModifyTime,
	}
	for name, g := range d.TaskGroups {
		out.TaskGroups[name] = &nomad.DeploymentState{
			PlacedCanaries:    g.PlacedCanaries,
			AutoRevert:        g.AutoRevert,
			ProgressDeadline:  g.ProgressDeadline,
			RequireProgressBy: g.RequireProgressBy,
			Promoted:          g.Promoted,
			DesiredCanaries:   g.DesiredCanaries,
			DesiredTotal:      g.DesiredTotal,
			PlacedAllocs:      g.PlacedAllocs,
			HealthyAllocs:     g.HealthyAllocs,
			UnhealthyAllocs:   g.UnhealthyAllocs,
		}
	}
	return out
}
