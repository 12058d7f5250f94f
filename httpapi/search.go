package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/api/contexts"

	"github.com/wasmnode/wasmnode/structs"
)

const (
	// maxMatches bounds a search's answer per kind, as in Nomad.
	maxMatches = 20
	// minFuzzyText and maxFuzzyText bound what is searched for within names, in bytes.
	minFuzzyText, maxFuzzyText = 2, 1 << 10
)

// searched are the kinds of things that can be searched for, as Nomad lists them.
var searched = []contexts.Context{
	contexts.Allocs, contexts.Jobs, contexts.Nodes, contexts.NodePools, contexts.Evals, contexts.Deployments, contexts.Plugins,
	contexts.Volumes, contexts.ScalingPolicies, contexts.Variables, contexts.Namespaces, contexts.HostVolumes,
}

// byUUID are the kinds that are known by UUIDs alone.
var byUUID = []contexts.Context{contexts.Evals, contexts.Deployments, contexts.ScalingPolicies}

func (h *handler) searchRoutes() {
	h.put("/v1/search", h.search)
	h.put("/v1/search/fuzzy", h.searchFuzzy)
}

// kinds are those that a request asks for.
func kinds(asked contexts.Context) ([]contexts.Context, error) {
	switch {
	case asked == contexts.All:
		return searched, nil
	case slices.Contains(searched, asked):
		return []contexts.Context{asked}, nil
	}
	return nil, badRequest("context must be one of %v or 'all' for all contexts; got %q", searched, asked)
}

// thing is something that can be found: by its ID, or by its name where it has another.
type thing struct {
	id, name string
	scope    []string // what the name is within, from the namespace down; of one with a name of its own: its ID
}

// searches reports whether a search is for what belongs to the jobs of a namespace, and may find
// it.
func (q *query) searches(namespace string) bool {
	return (q.namespace == "*" || q.namespace == namespace) && q.caller.readsJobs(namespace)
}

// things are all that there are of a kind in a namespace and that the caller may see, by their
// IDs.
func (h *handler) things(kind contexts.Context, q *query) (list []thing) {
	cp := h.ControlPlane
	switch kind {
	case contexts.Allocs:
		for _, a := range cp.Allocations() {
			if q.searches(a.Namespace) {
				list = append(list, thing{a.ID, a.Name, []string{a.Namespace, a.ID}})
			}
		}
	case contexts.Jobs:
		for _, j := range cp.Jobs() {
			if q.searches(*j.Namespace) {
				list = append(list, thing{*j.ID, *j.Name, []string{*j.Namespace, *j.ID}})
			}
		}
	case contexts.Nodes:
		for _, n := range h.searchedNodes(q) {
			list = append(list, thing{n.ID, n.Name, []string{n.ID}})
		}
	case contexts.Evals:
		for _, e := range cp.Evaluations() {
			if q.searches(e.Namespace) {
				list = append(list, thing{id: e.ID})
			}
		}
	case contexts.Deployments:
		for _, d := range cp.Deployments() {
			if q.searches(d.Namespace) {
				list = append(list, thing{id: d.ID})
			}
		}
	case contexts.ScalingPolicies:
		for _, p := range cp.ScalingPolicies() {
			if q.searches(p.Namespace) {
				list = append(list, thing{id: p.ID})
			}
		}
	case contexts.NodePools:
		for _, p := range h.ControlPlane.NodePools() {
			if q.caller.seesPool(p.Name) {
				list = append(list, thing{id: p.Name, name: p.Name})
			}
		}
	case contexts.HostVolumes:
		for _, v := range cp.HostVolumes() {
			if (q.namespace == "*" || q.namespace == v.Namespace) && q.caller.readsVolumes(v.Namespace) {
				list = append(list, thing{v.ID, v.Name, []string{v.Namespace, v.ID}})
			}
		}
	case contexts.Namespaces:
		for _, n := range h.ControlPlane.Namespaces() {
			if q.caller.seesNamespace(n.Name) {
				list = append(list, thing{id: n.Name, name: n.Name})
			}
		}
	}
	slices.SortFunc(list, func(a, b thing) int { return cmp.Compare(a.id, b.id) })
	return list
}

// searchedNodes are the nodes that the caller may see.
func (h *handler) searchedNodes(q *query) []*structs.Node {
	if !q.caller.readsNodes() {
		return nil
	}
	return h.ControlPlane.Nodes()
}

// search finds things by a prefix of their ID.
func (h *handler) search(r *http.Request) (any, error) {
	var req nomad.SearchRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	asked, err := kinds(req.Context)
	if err != nil {
		return nil, err
	}
	q, err := parseQuery(r)
	if err != nil {
		return nil, err
	}
	q.namespace, q.prefix = cmp.Or(req.Namespace, q.namespace), req.Prefix
	out := &nomad.SearchResponse{Matches: map[contexts.Context][]string{}, Truncations: map[contexts.Context]bool{}}
	for _, kind := range asked {
		out.Truncations[kind], out.Matches[kind] = false, nil
		for _, t := range h.things(kind, q) {
			switch is := strings.HasPrefix(t.id, req.Prefix) || isUUID(kind) && q.hasUUIDPrefix(t.id); {
			case !is:
			case len(out.Matches[kind]) == maxMatches:
				out.Truncations[kind] = true
			default:
				out.Matches[kind] = append(out.Matches[kind], t.id)
			}
		}
	}
	stamp(out, h.ControlPlane.Index(tableJobs))
	return out, nil
}

// isUUID reports whether things of a kind have UUIDs.
func isUUID(kind contexts.Context) bool {
	return kind == contexts.Allocs || kind == contexts.Nodes || kind == contexts.HostVolumes || slices.Contains(byUUID, kind)
}

// searchFuzzy finds things by a part of their names, and what jobs are made of.
func (h *handler) searchFuzzy(r *http.Request) (any, error) {
	var req nomad.FuzzySearchRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	asked, err := kinds(req.Context)
	if err != nil {
		return nil, err
	}
	if n := len(req.Text); n < minFuzzyText {
		return nil, badRequest("fuzzy search query must be at least %d characters, got %d", minFuzzyText, n)
	} else if n > maxFuzzyText {
		return nil, badRequest("fuzzy search query must be at most %d characters, got %d", maxFuzzyText, n)
	}
	q, err := parseQuery(r)
	if err != nil {
		return nil, err
	}
	q.namespace, q.prefix = cmp.Or(req.Namespace, q.namespace), req.Text
	f := &fuzzy{text: strings.ToLower(req.Text), found: map[contexts.Context][]fuzzyMatch{}}
	truncations := map[contexts.Context]bool{}
	for _, kind := range asked {
		truncations[kind] = false
		for _, t := range h.things(kind, q) {
			if !slices.Contains(byUUID, kind) {
				f.add(kind, t.name, t.scope...)
			} else if q.hasUUIDPrefix(t.id) {
				f.found[kind] = append(f.found[kind], fuzzyMatch{nomad.FuzzyMatch{ID: t.id}, 0})
			}
		}
		switch kind {
		case contexts.Jobs:
			h.searchWithinJobs(f, q)
		case contexts.Nodes:
			for _, n := range h.searchedNodes(q) {
				f.add(contexts.Classes, n.Class, n.ID)
			}
		}
	}
	out := &nomad.FuzzySearchResponse{Matches: f.matches(truncations), Truncations: truncations}
	stamp(out, h.ControlPlane.Index(tableJobs))
	return out, nil
}

// searchWithinJobs finds groups, tasks, services, and what tasks run.
func (h *handler) searchWithinJobs(f *fuzzy, q *query) {
	for _, j := range h.ControlPlane.Jobs() {
		if !q.searches(*j.Namespace) || *j.Stop {
			continue
		}
		scope := []string{*j.Namespace, *j.ID}
		for _, g := range j.TaskGroups {
			f.add(contexts.Groups, *g.Name, scope...)
			inGroup := append(slices.Clone(scope), *g.Name)
			for _, s := range g.Services {
				f.add(contexts.Services, s.Name, inGroup...)
			}
			for _, t := range g.Tasks {
				f.add(contexts.Tasks, t.Name, inGroup...)
				inTask := append(slices.Clone(inGroup), t.Name)
				for _, s := range t.Services {
					f.add(contexts.Services, s.Name, inTask...)
				}
				for key, kind := range map[string]contexts.Context{"image": contexts.Images, "command": contexts.Commands, "class": contexts.Classes} {
					if text, is := t.Config[key].(string); is {
						f.add(kind, text, inTask...)
					}
				}
			}
		}
	}
}

// fuzzy collects what has a text in its name.
type fuzzy struct {
	text  string // in lower case
	found map[contexts.Context][]fuzzyMatch
}

type fuzzyMatch struct {
	nomad.FuzzyMatch
	at int // where in the name
}

func (f *fuzzy) add(kind contexts.Context, name string, scope ...string) {
	if at := strings.Index(strings.ToLower(name), f.text); at >= 0 {
		f.found[kind] = append(f.found[kind], fuzzyMatch{nomad.FuzzyMatch{ID: name, Scope: scope}, at})
	}
}

// matches are the best of each kind: those whose names begin with the text first.
func (f *fuzzy) matches(truncations map[contexts.Context]bool) map[contexts.Context][]nomad.FuzzyMatch {
	out := map[contexts.Context][]nomad.FuzzyMatch{}
	for kind, list := range f.found {
		slices.SortFunc(list, func(a, b fuzzyMatch) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.ID, b.ID), slices.Compare(a.Scope, b.Scope))
		})
		if len(list) > maxMatches {
			truncations[kind] = true
			list = list[:maxMatches]
		}
		for _, m := range list {
			out[kind] = append(out[kind], m.FuzzyMatch)
		}
	}
	return out
}
