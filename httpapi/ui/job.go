package ui

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

// jobBody is what the page of a job shows.
type jobBody struct {
	Job         *nomad.Job
	Groups      []groupLine
	Unplaced    []unplaced
	Allocations []*nomad.AllocationListStub
	Deployments []*nomad.Deployment
	Evaluations []evaluationLine
	// Hidden is how many of the last two are older than what is shown.
	HiddenDeployments, HiddenEvaluations int
	// Problems are why something is missing, by what.
	Problems map[string]string
}

// groupLine is a group of a job and what there is of it.
type groupLine struct {
	Name   string
	Wanted int
	nomad.TaskGroupSummary
}

// unplaced is why allocations of a group are not placed.
type unplaced struct {
	Group   string
	Count   int
	Reasons []string
}

// mostShown is how many evaluations and deployments of a job its page shows.
const mostShown = 10

func (s *site) job(a *asker, rest string) (*view, error) {
	namespace, id := splitJob(rest, a.request.URL.Query().Get("namespace"))
	q := values("namespace", namespace)
	body := &jobBody{Problems: map[string]string{}}
	if _, err := a.get(&body.Job, path("job", id), q); err != nil {
		return nil, err
	}
	var summary nomad.JobSummary
	var evaluations []*nomad.Evaluation
	body.Problems["groups"] = a.try(&summary, path("job", id, "summary"), q)
	body.Problems["allocations"] = a.try(&body.Allocations, path("job", id, "allocations"), q)
	body.Problems["deployments"] = a.try(&body.Deployments, path("job", id, "deployments"), q)
	body.Problems["evaluations"] = a.try(&evaluations, path("job", id, "evaluations"), q)
	for _, g := range body.Job.TaskGroups {
		body.Groups = append(body.Groups, groupLine{*g.Name, *g.Count, summary.Summary[*g.Name]})
	}
	slices.SortFunc(body.Allocations, func(x, y *nomad.AllocationListStub) int { return int(sign(y.CreateTime - x.CreateTime)) })
	slices.SortFunc(evaluations, func(x, y *nomad.Evaluation) int { return int(sign(y.CreateTime - x.CreateTime)) })
	body.Unplaced = unplacedOf(evaluations)
	body.Deployments, body.HiddenDeployments = firsts(body.Deployments)
	body.Evaluations, body.HiddenEvaluations = firsts(linesOf(evaluations))
	return &view{
		template: "job", Title: id, Section: "jobs", Parents: []link{{"Jobs", Prefix + "jobs"}}, Body: body, JSON: a.asked,
	}, nil
}

// firsts leaves what a page shows of a list.
func firsts[T any](all []T) (shown []T, hidden int) {
	if len(all) <= mostShown {
		return all, 0
	}
	return all[:mostShown], len(all) - mostShown
}

func sign(n int64) int64 { return min(1, max(-1, n)) }

// unplacedOf is what waits for room: of each group what the newest evaluation that was about
// it says, while one is blocked.
func unplacedOf(newestFirst []*nomad.Evaluation) (all []unplaced) {
	blocked := slices.IndexFunc(newestFirst, func(e *nomad.Evaluation) bool { return e.Status == "blocked" })
	if blocked < 0 {
		return nil
	}
	failed := newestFirst[blocked].FailedTGAllocs
	waiting := newestFirst[blocked].QueuedAllocations
	for _, e := range newestFirst {
		if len(failed) == 0 {
			failed = e.FailedTGAllocs
		}
		if len(waiting) == 0 {
			waiting = e.QueuedAllocations
		}
	}
	for _, group := range slices.Sorted(maps.Keys(failed)) {
		all = append(all, unplaced{group, max(1, waiting[group]), reasons(failed[group])})
	}
	return all
}

// unmet says that a node is not what a constraint asks for; of drivers it is a sentence already.
func unmet(constraint string) string {
	switch {
	case constraint == "missing drivers":
		return "The node has no such driver that is healthy."
	case strings.HasPrefix(constraint, "driver "):
		return "The " + constraint
	}
	return "The node does not have: " + constraint
}

// reasons says in words why a group was not placed.
func reasons(m *nomad.AllocationMetric) (all []string) {
	if m == nil {
		return nil
	}
	if m.NodesEvaluated == 0 {
		all = append(all, "The node takes no allocations: it is not eligible, or not in a datacenter and node pool of the job.")
	}
	for _, class := range slices.Sorted(maps.Keys(m.ClassFiltered)) {
		all = append(all, "Nodes of the class "+class+" are not wanted.")
	}
	for _, constraint := range slices.Sorted(maps.Keys(m.ConstraintFiltered)) {
		all = append(all, unmet(constraint))
	}
	for _, dimension := range slices.Sorted(maps.Keys(m.DimensionExhausted)) {
		all = append(all, "Not enough is free: "+dimension)
	}
	for _, quota := range m.QuotaExhausted {
		all = append(all, "The quota is used up: "+quota)
	}
	if len(all) == 0 {
		all = append(all, fmt.Sprintf("Of %d nodes, %d were left out and %d were full.", m.NodesEvaluated, m.NodesFiltered, m.NodesExhausted))
	}
	return all
}
