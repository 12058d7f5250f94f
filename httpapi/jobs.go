package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

func (h *handler) jobRoutes() {
	h.get("/v1/jobs", tableJobs, h.listJobs)
	h.put("/v1/jobs", h.registerJob)
	h.put("/v1/validate/job", h.validateJob)
	h.method("/v1/job/{rest...}", h.readingJob(), http.MethodGet)
	h.put("/v1/job/{rest...}", h.writeJob)
	h.method("/v1/job/{rest...}", writing(h.deregisterJob), http.MethodDelete)
}

func (h *handler) listJobs(_ *http.Request, q *query) (answer, error) {
	jobs := slices.DeleteFunc(h.ControlPlane.Jobs(), func(j *nomad.Job) bool {
		return !q.inNamespace(*j.Namespace) || !strings.HasPrefix(*j.ID, q.prefix)
	})
	slices.SortFunc(jobs, func(a, b *nomad.Job) int {
		return cmp.Or(cmp.Compare(*a.Namespace, *b.Namespace), cmp.Compare(*a.ID, *b.ID))
	})
	stubs, next, err := page(q, jobs,
		func(j *nomad.Job) string { return *j.Namespace + "." + *j.ID },
		func(j *nomad.Job) any { return j },
		func(j *nomad.Job) *nomad.JobListStub {
			return jobStub(j, jobSummary(h.ControlPlane.JobSummary(*j.Namespace, *j.ID)))
		})
	return answer{body: stubs, next: next}, err
}

func (h *handler) registerJob(r *http.Request) (any, error) {
	var req nomad.JobRegisterRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if err := checkJob(r, req.Job); err != nil {
		return nil, err
	}
	return h.register(&req)
}

// register registers the job of a request that was looked at.
func (h *handler) register(req *nomad.JobRegisterRequest) (any, error) {
	change, err := h.ControlPlane.RegisterJob(&structs.JobRegistration{
		Job: req.Job, Submission: req.Submission,
		EnforceIndex: req.EnforceIndex, JobModifyIndex: req.JobModifyIndex, EvalPriority: req.EvalPriority,
	})
	if err != nil {
		return nil, err
	}
	return jobRegistered(change), nil
}

func (h *handler) validateJob(r *http.Request) (any, error) {
	var req nomad.JobValidateRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if err := checkJob(r, req.Job); err != nil {
		return nil, err
	}
	faults, warnings := h.ControlPlane.ValidateJob(req.Job)
	return &nomad.JobValidateResponse{
		ValidationErrors: faults,
		Error:            strings.Join(faults, "\n"),
		Warnings:         warningText(warnings),
	}, nil
}

// checkJob checks that there is a job and that it has an ID, and gives it the
// request's namespace when it has none.
func checkJob(r *http.Request, job *nomad.Job) error {
	if job == nil {
		return badRequest("Job must be specified")
	}
	if structs.Deref(job.ID) == "" {
		return badRequest("Job ID hasn't been provided")
	}
	if structs.Deref(job.Namespace) == "" {
		job.Namespace = nil
		if ns := r.URL.Query().Get("namespace"); ns != "" {
			job.Namespace = &ns
		}
	}
	return nil
}

// jobPath splits ":id/verb": job IDs may contain slashes, so only a known verb at
// the end is one.
func jobPath(r *http.Request) (id, verb string) {
	rest := r.PathValue("rest")
	if i := strings.LastIndexByte(rest, '/'); i > 0 {
		switch v := rest[i+1:]; v {
		case "allocations", "evaluations", "deployment", "deployments", "summary", "versions", "submission", "scale", "evaluate":
			return rest[:i], v
		}
	}
	return rest, ""
}

// readingJob answers reads of a job; what is read decides which table they wait for.
func (h *handler) readingJob() func(http.ResponseWriter, *http.Request) error {
	allocations := h.blocking(tableAllocations, h.jobAllocations)
	evaluations := h.blocking(tableEvaluations, h.jobEvaluations)
	job := h.blocking(tableJobs, h.readJob)
	return func(w http.ResponseWriter, r *http.Request) error {
		switch _, verb := jobPath(r); verb {
		case "allocations":
			return allocations(w, r)
		case "evaluations":
			return evaluations(w, r)
		}
		return job(w, r)
	}
}

func (h *handler) readJob(r *http.Request, q *query) (answer, error) {
	id, verb := jobPath(r)
	switch verb {
	case "deployment":
		return answer{body: nil}, nil
	case "deployments":
		return answer{body: []*nomad.Deployment{}}, nil
	}
	job := h.ControlPlane.Job(q.namespace, id)
	if job == nil {
		return answer{}, notFound("job not found")
	}
	switch verb {
	case "summary":
		return answer{body: jobSummary(h.ControlPlane.JobSummary(q.namespace, id))}, nil
	case "versions":
		return answer{body: &nomad.JobVersionsResponse{Versions: h.ControlPlane.JobVersions(q.namespace, id)}}, nil
	case "submission":
		return h.jobSubmission(r, q, job)
	case "scale":
		return answer{body: h.jobScale(job)}, nil
	}
	return answer{body: job, index: *job.ModifyIndex}, nil
}

func (h *handler) jobAllocations(r *http.Request, q *query) (answer, error) {
	id, _ := jobPath(r)
	stubs := []*nomad.AllocationListStub{}
	for _, a := range h.ControlPlane.JobAllocations(q.namespace, id) {
		stubs = append(stubs, allocationStub(a))
	}
	return answer{body: stubs}, nil
}

func (h *handler) jobEvaluations(r *http.Request, q *query) (answer, error) {
	id, _ := jobPath(r)
	list := []*nomad.Evaluation{}
	for _, e := range h.ControlPlane.JobEvaluations(q.namespace, id) {
		list = append(list, evaluation(e))
	}
	return answer{body: list}, nil
}

func (h *handler) jobSubmission(r *http.Request, q *query, job *nomad.Job) (answer, error) {
	version := *job.Version
	if s := r.URL.Query().Get("version"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return answer{}, badRequest("Expect a number for `version`, got %q", s)
		}
		version = n
	}
	sub := h.ControlPlane.JobSubmission(q.namespace, *job.ID, version)
	if sub == nil {
		return answer{}, notFound("job source not found")
	}
	return answer{body: sub}, nil
}

// jobScale renders the counts of a job's groups.
func (h *handler) jobScale(job *nomad.Job) *nomad.JobScaleStatusResponse {
	summary := h.ControlPlane.JobSummary(*job.Namespace, *job.ID)
	out := &nomad.JobScaleStatusResponse{
		JobID:          *job.ID,
		Namespace:      *job.Namespace,
		JobCreateIndex: *job.CreateIndex,
		JobModifyIndex: *job.JobModifyIndex,
		JobStopped:     *job.Stop,
		TaskGroups:     map[string]nomad.TaskGroupScaleStatus{},
	}
	for _, g := range job.TaskGroups {
		s := summary.Groups[*g.Name]
		out.TaskGroups[*g.Name] = nomad.TaskGroupScaleStatus{
			Desired: *g.Count,
			Placed:  s.Starting + s.Running,
			Running: s.Running,
			Events:  []nomad.ScalingEvent{},
		}
	}
	return out
}

func (h *handler) writeJob(r *http.Request) (any, error) {
	id, verb := jobPath(r)
	q, err := parseQuery(r)
	if err != nil {
		return nil, err
	}
	switch verb {
	case "evaluate":
		evalID, err := h.ControlPlane.EvaluateJob(q.namespace, id)
		if err != nil {
			return nil, err
		}
		return &nomad.JobRegisterResponse{EvalID: evalID}, nil
	case "":
		var req nomad.JobRegisterRequest
		if err := decode(r, &req); err != nil {
			return nil, err
		}
		if err := checkJob(r, req.Job); err != nil {
			return nil, err
		}
		if *req.Job.ID != id {
			return nil, mismatch(r, *req.Job.ID, id)
		}
		return h.register(&req)
	}
	return nil, &statusError{http.StatusMethodNotAllowed, "Invalid method"}
}

// mismatch refuses a job at another's path. What follows a job's own ID is a verb of
// Nomad's that is not served.
func mismatch(r *http.Request, id, path string) error {
	if strings.HasPrefix(path, id+"/") {
		return noEndpoint(r)
	}
	return badRequest("Job ID does not match")
}

func (h *handler) deregisterJob(r *http.Request) (any, error) {
	id, _ := jobPath(r)
	q, err := parseQuery(r)
	if err != nil {
		return nil, err
	}
	purge, err := boolParameter(r, "purge")
	if err != nil {
		return nil, err
	}
	noDelay, err := boolParameter(r, "no_shutdown_delay")
	if err != nil {
		return nil, err
	}
	change, err := h.ControlPlane.DeregisterJob(q.namespace, id, purge, noDelay)
	if err != nil {
		return nil, err
	}
	return jobStopped(change), nil
}
