package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// jobPattern is that of a job and of what is asked of it: an ID may contain slashes.
const jobPattern = "/v1/job/{rest...}"

func (h *handler) jobRoutes() {
	h.get("/v1/jobs", tableJobs, h.listJobs)
	h.put("/v1/jobs", h.registerJob)
	h.put("/v1/validate/job", h.validateJob)
	h.put("/v1/jobs/parse", h.parseJob)
	h.get("/v1/jobs/statuses", tableJobs, h.listStatuses)
	h.method("/v1/jobs/statuses", h.askStatuses, http.MethodPut, http.MethodPost)
	h.method(jobPattern, h.readingJob(), http.MethodGet)
	h.put(jobPattern, h.writeJob)
	h.method(jobPattern, h.writing(h.deregisterJob), http.MethodDelete)
}

func (h *handler) listJobs(r *http.Request, q *query) (answer, error) {
	return h.jobsWhere(r, q, func(*nomad.Job) bool { return true })
}

// jobsWhere lists the jobs that are wanted.
func (h *handler) jobsWhere(r *http.Request, q *query, wanted func(*nomad.Job) bool) (answer, error) {
	withMeta, err := boolParameter(r, "meta")
	if err != nil {
		return answer{}, err
	}
	jobs := slices.DeleteFunc(h.ControlPlane.Jobs(), func(j *nomad.Job) bool {
		return !q.inNamespace(*j.Namespace) || !strings.HasPrefix(*j.ID, q.prefix) || !wanted(j)
	})
	slices.SortFunc(jobs, func(a, b *nomad.Job) int {
		return cmp.Or(cmp.Compare(*a.Namespace, *b.Namespace), cmp.Compare(*a.ID, *b.ID))
	})
	stubs, next, err := page(q, jobs,
		func(j *nomad.Job) string { return *j.Namespace + "." + *j.ID },
		func(j *nomad.Job) any { return j },
		func(j *nomad.Job) *listedJob {
			stub := jobStub(j, jobSummary(h.ControlPlane.JobSummary(*j.Namespace, *j.ID)))
			if withMeta {
				stub.Meta = j.Meta
			}
			return stub
		})
	return answer{body: stubs, next: next}, err
}

func (h *handler) registerJob(r *http.Request) (any, error) {
	var req nomad.JobRegisterRequest
	unknown, err := decodeJob(r, &req)
	if err != nil {
		return nil, err
	}
	if err := h.checkJob(r, req.Job); err != nil {
		return nil, err
	}
	if err := h.mayRegister(r); err != nil {
		return nil, err
	}
	return h.register(r, &req, unknown)
}

// register registers the job of a request that was looked at, with the warnings that came of
// that.
func (h *handler) register(r *http.Request, req *nomad.JobRegisterRequest, warnings []string) (any, error) {
	if err := callerOf(r).mayMount(req.Job); err != nil {
		return nil, err
	}
	if err := h.checkRegion(req.Region); err != nil {
		return nil, err
	}
	change, err := h.ControlPlane.RegisterJob(&structs.JobRegistration{
		Job: req.Job, Submission: req.Submission,
		EnforceIndex: req.EnforceIndex, JobModifyIndex: req.JobModifyIndex, EvalPriority: req.EvalPriority,
		PreserveCounts: req.PreserveCounts, PreserveResources: req.PreserveResources,
	})
	if err != nil {
		return nil, err
	}
	change.Warnings = append(append(change.Warnings, h.driverWarnings(req.Job)...), warnings...)
	return jobRegistered(change), nil
}

// checkJob checks that there is a job, that it has an ID and is of the agent's region, gives it
// the request's namespace when it has none, and checks that the caller may do there what it asks. The region "global", which clients
// put into jobs that have none, is the agent's.
func (h *handler) checkJob(r *http.Request, job *nomad.Job) error {
	if job == nil {
		return badRequest("Job must be specified")
	}
	if structs.Deref(job.ID) == "" {
		return badRequest("Job ID hasn't been provided")
	}
	if region := structs.Deref(job.Region); region != nomad.GlobalRegion {
		if err := h.checkRegion(region); err != nil {
			return err
		}
	}
	job.Region = &h.Agent.Region
	if structs.Deref(job.Namespace) == "" {
		job.Namespace = nil
		if ns := r.URL.Query().Get("namespace"); ns != "" {
			job.Namespace = &ns
		}
	}
	if !callerOf(r).mayIn(cmp.Or(structs.Deref(job.Namespace), nomad.DefaultNamespace)) {
		return access.ErrDenied
	}
	return nil
}

// jobVerbs are what can follow a job's ID in Nomad, whether it is served or not: none of
// them is the end of an ID.
var jobVerbs = []string{
	"action", "actions", "allocations", "deployment", "deployments", "dispatch", "evaluate", "evaluations", "periodic/force",
	"plan", "revert", "scale", "services", "stable", "submission", "summary", "versions",
}

// jobPath splits ":id/verb".
func jobPath(r *http.Request) (id, verb string) {
	rest := r.PathValue("rest")
	if id, _, is := tagPath(rest); is {
		return id, verbTag
	}
	for _, verb := range jobVerbs {
		if id, is := strings.CutSuffix(rest, "/"+verb); is && id != "" {
			return id, verb
		}
	}
	return rest, ""
}

// readingJob answers reads of a job; what is read decides which table they wait for.
func (h *handler) readingJob() func(http.ResponseWriter, *http.Request) error {
	allocations := h.blocking(tableAllocations, h.jobAllocations)
	evaluations := h.blocking(tableEvaluations, h.jobEvaluations)
	deployment := h.blocking(tableDeployments, h.jobDeployment)
	deployments := h.blocking(tableDeployments, h.jobDeployments)
	services := h.blocking(tableServices, h.jobServices)
	job := h.blocking(tableJobs, h.readJob)
	return func(w http.ResponseWriter, r *http.Request) error {
		switch _, verb := jobPath(r); verb {
		case "action":
			return h.runAction(w, r)
		case "allocations":
			return allocations(w, r)
		case "evaluations":
			return evaluations(w, r)
		case "deployment":
			return deployment(w, r)
		case "deployments":
			return deployments(w, r)
		case "services":
			return services(w, r)
		}
		return job(w, r)
	}
}

func (h *handler) readJob(r *http.Request, q *query) (answer, error) {
	id, verb := jobPath(r)
	switch verb {
	case "", "actions", "summary", "versions", "submission", "scale":
	default: // it is one of those that are written
		return answer{}, &statusError{http.StatusMethodNotAllowed, "Invalid method"}
	}
	job := h.ControlPlane.Job(q.namespace, id)
	if job == nil {
		return answer{}, h.noJob(r, q, id)
	}
	switch verb {
	case "summary":
		return answer{body: jobSummary(h.ControlPlane.JobSummary(q.namespace, id))}, nil
	case "versions":
		return h.jobVersions(r, q, id)
	case "actions":
		return answer{body: jobActions(job)}, nil
	case "submission":
		return h.jobSubmission(r, q, job)
	case "scale":
		return answer{body: h.jobScale(job)}, nil
	}
	return answer{body: job, index: *job.ModifyIndex}, nil
}

func (h *handler) jobVersions(r *http.Request, q *query, id string) (answer, error) {
	diffs, err := boolParameter(r, "diffs")
	if err != nil {
		return answer{}, err
	}
	out := &nomad.JobVersionsResponse{Versions: h.ControlPlane.JobVersions(q.namespace, id)}
	if diffs {
		out.Diffs, err = versionDiffs(r, out.Versions)
	}
	return answer{body: out}, err
}

// noJob tells that there is no job of an ID, or no endpoint, where the ID is one of a job and
// a word after it that means nothing.
func (h *handler) noJob(r *http.Request, q *query, id string) error {
	if i := strings.LastIndexByte(id, '/'); i > 0 && h.ControlPlane.Job(q.namespace, id[:i]) != nil {
		return noEndpoint(r)
	}
	return notFound("job not found")
}

// jobAllocations are those of the job, without those of an earlier one with its ID that was
// purged, unless they are asked for.
func (h *handler) jobAllocations(r *http.Request, q *query) (answer, error) {
	id, _ := jobPath(r)
	all, err := boolParameter(r, "all")
	if err != nil {
		return answer{}, err
	}
	job := h.ControlPlane.Job(q.namespace, id)
	stubs := []wireStub{}
	for _, a := range h.ControlPlane.JobAllocations(q.namespace, id) {
		if !all && job != nil && a.Job != nil && *a.Job.CreateIndex != *job.CreateIndex {
			continue
		}
		stubs = append(stubs, answeredStub(a))
	}
	return answer{body: stubs}, nil
}

func (h *handler) jobEvaluations(r *http.Request, q *query) (answer, error) {
	id, _ := jobPath(r)
	list := []wireEvaluation{}
	for _, e := range h.ControlPlane.JobEvaluations(q.namespace, id) {
		list = append(list, answeredEvaluation(e))
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
	out := &submission{JobSubmission: sub, Namespace: *job.Namespace, JobID: *job.ID, Version: version}
	for _, v := range h.ControlPlane.JobVersions(q.namespace, *job.ID) {
		if *v.Version == version {
			out.JobModifyIndex = *v.JobModifyIndex
		}
	}
	return answer{body: out}, nil
}

// submission is what a version was registered from, with what the type of Nomad's client
// leaves out.
type submission struct {
	*nomad.JobSubmission
	Namespace, JobID        string
	Version, JobModifyIndex uint64
}

func (h *handler) writeJob(r *http.Request) (any, error) {
	id, verb := jobPath(r)
	q, err := parseQuery(r)
	if err != nil {
		return nil, err
	}
	switch verb {
	case "", "dispatch", "revert", "scale":
		if err := h.mayRegister(r); err != nil {
			return nil, err
		}
	}
	switch verb {
	case "evaluate":
		var req nomad.JobEvaluateRequest
		if err := decode(r, &req); err != nil {
			return nil, err
		}
		if req.JobID != "" && req.JobID != id {
			return nil, badRequest("JobID not same as job name")
		}
		evalID, err := h.ControlPlane.EvaluateJob(q.namespace, id, req.EvalOptions.ForceReschedule)
		if err != nil {
			return nil, err
		}
		index := h.evaluationIndex(evalID)
		return jobRegistered(&structs.JobChange{EvalID: evalID, EvalCreateIndex: index, LastIndex: index}), nil
	case "":
		var req nomad.JobRegisterRequest
		unknown, err := decodeJob(r, &req)
		if err != nil {
			return nil, err
		}
		if err := h.checkJob(r, req.Job); err != nil {
			return nil, err
		}
		if *req.Job.ID != id {
			return nil, badRequest("Job ID does not match")
		}
		return h.register(r, &req, unknown)
	case "plan":
		return h.planJob(r, id)
	case "dispatch":
		return h.dispatchJob(r, q, id)
	case "periodic/force":
		return h.forceJob(q, id)
	case "revert":
		return h.revertJob(r, q, id)
	case "scale":
		return h.scaleJob(r, q, id)
	case "stable":
		return h.setJobStable(r, q, id)
	case verbTag:
		return h.tagVersion(r, q)
	case "action":
		return nil, noEndpoint(r)
	}
	return nil, &statusError{http.StatusMethodNotAllowed, "Invalid method"}
}

func (h *handler) deregisterJob(r *http.Request) (any, error) {
	id, verb := jobPath(r)
	q, err := parseQuery(r)
	switch {
	case err != nil:
		return nil, err
	case verb == verbTag:
		return h.untagVersion(r, q)
	case verb != "":
		return nil, &statusError{http.StatusMethodNotAllowed, "Invalid method"}
	}
	req := &structs.JobStop{Namespace: q.namespace, JobID: id}
	if req.Purge, err = boolParameter(r, "purge"); err != nil {
		return nil, err
	}
	if req.NoShutdownDelay, err = boolParameter(r, "no_shutdown_delay"); err != nil {
		return nil, err
	}
	if s := r.URL.Query().Get("eval_priority"); s != "" {
		if req.EvalPriority, err = strconv.Atoi(s); err != nil {
			return nil, badRequest("Failed to parse value of %q (%v) as a int: %v", "eval_priority", s, err)
		}
	}
	change, err := h.ControlPlane.DeregisterJob(req)
	if errdefs.ClassOf(err) == errdefs.NotFound { // as with Nomad: what is to be gone is
		return jobStopped(&structs.JobChange{LastIndex: h.ControlPlane.Index(tableJobs)}), nil
	}
	if err != nil {
		return nil, err
	}
	return jobStopped(change), nil
}
