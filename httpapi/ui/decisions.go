package ui

import (
	"maps"
	"slices"

	nomad "github.com/hashicorp/nomad/api"
)

// deploymentsBody is a page of the list of deployments.
type deploymentsBody struct {
	Deployments []*nomad.Deployment
	Next        string // the link to the next page; empty: this is the last
}

func (s *site) deployments(a *asker) (*view, error) {
	body := &deploymentsBody{}
	var err error
	if body.Next, err = a.list(&body.Deployments, "deployments", nil); err != nil {
		return nil, err
	}
	return &view{template: "deployments", Title: "Deployments", Section: "deployments", Body: body, JSON: a.asked}, nil
}

// evaluationLine is a decision of the scheduler, and what it could not place.
type evaluationLine struct {
	*nomad.Evaluation
	Unplaced []unplaced
}

// linesOf are evaluations with their reasons in words.
func linesOf(all []*nomad.Evaluation) (lines []evaluationLine) {
	for _, e := range all {
		line := evaluationLine{Evaluation: e}
		for _, group := range slices.Sorted(maps.Keys(e.FailedTGAllocs)) {
			m := e.FailedTGAllocs[group]
			line.Unplaced = append(line.Unplaced, unplaced{group, 1 + m.CoalescedFailures, reasons(m)})
		}
		lines = append(lines, line)
	}
	return lines
}

// evaluationsBody is a page of the list of evaluations.
type evaluationsBody struct {
	Evaluations []evaluationLine
	Waiting     bool // these are those alone that wait for room
	Next        string
}

func (s *site) evaluations(a *asker) (*view, error) {
	body := &evaluationsBody{Waiting: a.request.URL.Query().Get("status") == "blocked"}
	extra := []string{}
	if body.Waiting {
		extra = []string{"status", "blocked"}
	}
	var all []*nomad.Evaluation
	var err error
	if body.Next, err = a.list(&all, "evaluations", extra); err != nil {
		return nil, err
	}
	body.Evaluations = linesOf(all)
	return &view{template: "evaluations", Title: "Evaluations", Section: "evaluations", Body: body, JSON: a.asked}, nil
}

// list decodes one page of a list of the API that has the newest at its end, of all namespaces; next
// is the link of the page that shows the one after it, and empty with the last. The extra
// parameters, names and values, are the page's too.
func (a *asker) list(into any, name string, extra []string) (next string, err error) {
	q := values(append([]string{"namespace", "*", "reverse", "true", "per_page", number(perPage)}, extra...)...)
	if token := a.request.URL.Query().Get("next_token"); token != "" {
		q.Set("next_token", token)
	}
	header, err := a.get(into, path(name), q)
	if err != nil {
		return "", err
	}
	if token := header.Get("X-Nomad-NextToken"); token != "" {
		next = Prefix + name + "?" + values(append([]string{"next_token", token}, extra...)...).Encode()
	}
	return next, nil
}
