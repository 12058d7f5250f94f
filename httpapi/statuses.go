package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// jobStatus is a job with what runs of it, as Nomad's web page asks for it.
type jobStatus struct {
	ID, Namespace, Name, ParentID, Type, NodePool, Status string
	Datacenters                                           []string
	Priority                                              int
	Version                                               uint64
	SubmitTime                                            int64
	ModifyIndex                                           uint64
	Stop, IsPack                                          bool
	GroupCountSum                                         int
	Allocs                                                []jobStatusAlloc
	ChildStatuses                                         []string
	LatestDeployment                                      *jobStatusDeployment
}

type jobStatusAlloc struct {
	ID, Group, ClientStatus, NodeID string
	DeploymentStatus                jobStatusHealth
	JobVersion                      uint64
	FollowupEvalID                  string
	HasPausedTask                   bool
}

type jobStatusHealth struct {
	Canary  bool
	Healthy *bool
}

type jobStatusDeployment struct {
	ID                string
	IsActive          bool
	JobVersion        uint64
	Status            string
	StatusDescription string
	AllAutoPromote    bool
	RequiresPromotion bool
}

func (h *handler) listStatuses(r *http.Request, q *query) (answer, error) {
	children, err := boolParameter(r, "include_children")
	if err != nil {
		return answer{}, err
	}
	return h.statuses(q, &nomad.JobStatusesRequest{IncludeChildren: children})
}

// askStatuses is for some jobs, which the body names.
func (h *handler) askStatuses(w http.ResponseWriter, r *http.Request) error {
	req, err := readNamed(r)
	if err != nil {
		return err
	}
	if r.URL.Query().Get("index") != "" {
		if err := becomeStream(r); err != nil {
			return err
		}
	}
	return h.blocking(tableJobs, func(_ *http.Request, q *query) (answer, error) { return h.statuses(q, req) })(w, r)
}

// The bounds of the jobs that a request names: it may wait with them for minutes.
const (
	maxNamed      = 1000
	maxNamedBytes = 256 << 10
)

// readNamed reads the jobs that a body names.
func readNamed(r *http.Request) (*nomad.JobStatusesRequest, error) {
	var req nomad.JobStatusesRequest
	if err := decodeWithin(r, 2*maxNamedBytes, &req); err != nil {
		return nil, err
	}
	return &req, checkNamed(req.Jobs)
}

func checkNamed(jobs []nomad.NamespacedID) error {
	size := 0
	for _, j := range jobs {
		size += len(j.Namespace) + len(j.ID)
	}
	if len(jobs) > maxNamed || size > maxNamedBytes {
		return badRequest("too many jobs are named: %d of %d bytes, where %d of %d are allowed", len(jobs), size, maxNamed, maxNamedBytes)
	}
	return nil
}

// statuses lists the jobs that are asked for, the one that changed last at the end. Named
// jobs are listed though they are children.
func (h *handler) statuses(q *query, req *nomad.JobStatusesRequest) (answer, error) {
	jobs := slices.DeleteFunc(h.named(req.Jobs), func(j *nomad.Job) bool { return !q.caller.mayIn(*j.Namespace) })
	if len(req.Jobs) == 0 {
		jobs = slices.DeleteFunc(h.ControlPlane.Jobs(), func(j *nomad.Job) bool {
			return !q.inNamespace(*j.Namespace) || structs.Deref(j.ParentID) != "" && !req.IncludeChildren
		})
	}
	jobs = slices.DeleteFunc(jobs, func(j *nomad.Job) bool { return !strings.HasPrefix(*j.ID, q.prefix) })
	slices.SortFunc(jobs, func(a, b *nomad.Job) int {
		return cmp.Or(cmp.Compare(*a.ModifyIndex, *b.ModifyIndex), cmp.Compare(*a.Namespace, *b.Namespace), cmp.Compare(*a.ID, *b.ID))
	})
	list, next, err := page(q, jobs,
		func(j *nomad.Job) string { return fmt.Sprintf("%d.%s.%s", *j.ModifyIndex, *j.Namespace, *j.ID) },
		func(j *nomad.Job) any { return j },
		h.jobStatus)
	return answer{body: list, next: next}, err
}

// named returns the jobs of some names that there are, each once.
func (h *handler) named(names []nomad.NamespacedID) (jobs []*nomad.Job) {
	seen := map[nomad.NamespacedID]bool{}
	for _, name := range names {
		if j := h.ControlPlane.Job(name.Namespace, name.ID); j != nil && !seen[name] {
			jobs = append(jobs, j)
		}
		seen[name] = true
	}
	return jobs
}

func (h *handler) jobStatus(j *nomad.Job) *jobStatus {
	s := &jobStatus{
		ID: *j.ID, Namespace: *j.Namespace, Name: structs.Deref(j.Name), ParentID: structs.Deref(j.ParentID), Type: structs.Deref(j.Type),
		NodePool: structs.Deref(j.NodePool), Status: structs.Deref(j.Status), Datacenters: j.Datacenters, Priority: structs.Deref(j.Priority),
		Version: structs.Deref(j.Version), SubmitTime: structs.Deref(j.SubmitTime), ModifyIndex: *j.ModifyIndex, Stop: structs.Deref(j.Stop),
		Allocs: []jobStatusAlloc{}, ChildStatuses: h.childStatuses(j),
	}
	_, s.IsPack = j.Meta["pack.name"]
	for _, g := range j.TaskGroups {
		s.GroupCountSum += structs.Deref(g.Count)
	}
	for _, a := range h.ControlPlane.JobAllocations(*j.Namespace, *j.ID) {
		if a.Job != nil && structs.Deref(a.Job.CreateIndex) == *j.CreateIndex {
			s.Allocs = append(s.Allocs, jobStatusOf(a))
		}
	}
	for _, d := range h.ControlPlane.JobDeployments(*j.Namespace, *j.ID) {
		s.LatestDeployment = &jobStatusDeployment{
			ID: d.ID, IsActive: d.Active(), JobVersion: d.JobVersion, Status: d.Status, StatusDescription: d.StatusDescription,
			AllAutoPromote: allAutoPromote(d), RequiresPromotion: d.RequiresPromotion(),
		}
		break // the newest comes first
	}
	return s
}

// allAutoPromote reports whether every group of a deployment promotes itself.
func allAutoPromote(d *structs.Deployment) bool {
	for _, g := range d.TaskGroups {
		if !g.AutoPromote {
			return false
		}
	}
	return len(d.TaskGroups) > 0
}

func jobStatusOf(a *structs.Allocation) jobStatusAlloc {
	s := jobStatusAlloc{
		ID: a.ID, Group: a.TaskGroup, ClientStatus: string(a.ClientStatus), NodeID: a.NodeID,
		JobVersion: structs.Deref(a.Job.Version), FollowupEvalID: a.FollowupEvalID,
	}
	if d := a.DeploymentStatus; d != nil {
		s.DeploymentStatus = jobStatusHealth{Canary: d.Canary, Healthy: d.Healthy}
	}
	return s
}

// childStatuses are those of the jobs that a periodic or parameterized one launched; nil
// for others.
func (h *handler) childStatuses(j *nomad.Job) []string {
	if !j.IsPeriodic() && !j.IsParameterized() {
		return nil
	}
	return notNull(h.ControlPlane.ChildStatuses(*j.Namespace, *j.ID))
}
