package ui

import (
	"cmp"
	"strings"
)

// perPage is how many rows a list shows.
const perPage = 50

// jobLine is a job in a list, as the API tells it.
type jobLine struct {
	ID, Namespace, Name, ParentID, Type, Status string
	Priority                                    int
	Version                                     uint64
	SubmitTime                                  int64
	Stop                                        bool
	GroupCountSum                               int
	Allocs                                      []struct{ ClientStatus string }
	LatestDeployment                            *struct{ Status, StatusDescription string }
}

// Path is the job's page.
func (j jobLine) Path() string { return jobPath(j.Namespace, j.ID) }

// Running counts its allocations that run.
func (j jobLine) Running() int {
	n := 0
	for _, a := range j.Allocs {
		if a.ClientStatus == "running" {
			n++
		}
	}
	return n
}

// jobsBody is a page of the list of jobs.
type jobsBody struct {
	Jobs []jobLine
	Next string // the link to the next page; empty: this is the last
}

func (s *site) jobs(a *asker) (*view, error) {
	body := &jobsBody{}
	q := values("namespace", "*", "reverse", "true", "include_children", "true", "per_page", number(perPage))
	if next := a.request.URL.Query().Get("next_token"); next != "" {
		q.Set("next_token", next)
	}
	header, err := a.get(&body.Jobs, path("jobs", "statuses"), q)
	if err != nil {
		return nil, err
	}
	if next := header.Get("X-Nomad-NextToken"); next != "" {
		body.Next = Prefix + "jobs?" + values("next_token", next).Encode()
	}
	return &view{template: "jobs", Title: "Jobs", Section: "jobs", Body: body, JSON: a.asked}, nil
}

// splitJob is a job's ID and namespace of what the path of its page ends in: the form of
// Nomad's own page, ID@NAMESPACE. Links of its command line may have the namespace beside it.
func splitJob(rest, beside string) (namespace, id string) {
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return cmp.Or(beside, "default"), rest
	}
	return rest[at+1:], rest[:at]
}
