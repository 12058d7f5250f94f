package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

// findJob returns the one job whose ID is, or begins with, a text. What the client asks for next
// is of the job's namespace, also where the job was looked for in all of them.
func findJob(c *nomad.Client, id string) (*nomad.Job, error) {
	stubs, _, err := c.Jobs().PrefixList(id)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(stubs, func(s *nomad.JobListStub) bool { return s.ID == id }) {
		stubs = slices.DeleteFunc(stubs, func(s *nomad.JobListStub) bool { return s.ID != id })
	}
	var matches []string
	for _, s := range stubs {
		match := s.ID
		if s.ID == id { // of several namespaces
			match = fmt.Sprintf("%s in namespace %s", s.ID, s.Namespace)
		}
		matches = append(matches, match)
	}
	if _, err = one("job", id, matches); err != nil {
		return nil, err
	}
	c.SetNamespace(stubs[0].Namespace)
	job, _, err := c.Jobs().Info(stubs[0].ID, nil)
	return job, err
}

// findAllocation returns the one allocation whose ID begins with a text, and has the client ask
// in its namespace, as [findJob] does.
func findAllocation(c *nomad.Client, id string) (*nomad.Allocation, error) {
	stubs, _, err := c.Allocations().PrefixList(id)
	if err != nil {
		return nil, err
	}
	var matches []string
	for _, s := range stubs {
		matches = append(matches, s.ID)
	}
	if id, err = one("allocation", id, matches); err != nil {
		return nil, err
	}
	alloc, _, err := c.Allocations().Info(id, nil)
	if err == nil {
		c.SetNamespace(alloc.Namespace)
	}
	return alloc, err
}

// findEvaluation returns the one evaluation whose ID begins with a text, and has the client ask
// in its namespace, as [findJob] does.
func findEvaluation(c *nomad.Client, id string) (*nomad.Evaluation, error) {
	evals, _, err := c.Evaluations().PrefixList(id)
	if err != nil {
		return nil, err
	}
	var matches []string
	for _, e := range evals {
		matches = append(matches, e.ID)
	}
	if id, err = one("evaluation", id, matches); err != nil {
		return nil, err
	}
	eval, _, err := c.Evaluations().Info(id, nil)
	if err == nil {
		c.SetNamespace(eval.Namespace)
	}
	return eval, err
}

// findNode returns the one node whose ID begins with a text; an empty one names the
// node that answers.
func findNode(c *nomad.Client, id string) (*nomad.Node, error) {
	stubs, _, err := c.Nodes().PrefixList(id)
	if err != nil {
		return nil, err
	}
	var matches []string
	for _, s := range stubs {
		matches = append(matches, s.ID)
	}
	if id, err = one("node", id, matches); err != nil {
		return nil, err
	}
	node, _, err := c.Nodes().Info(id, nil)
	return node, err
}

// nodeOf returns the node that a command line names: the one that answers, or the one of
// its argument.
func nodeOf(c *nomad.Client, self bool, id string) (*nomad.Node, error) {
	switch {
	case self && id != "":
		return nil, errors.New("-self and a node's ID name two nodes: one of them")
	case !self && id == "":
		return nil, errors.New("which node? name it, or -self for the one that answers")
	case self:
		var info nomad.AgentSelf
		if _, err := c.Raw().Query("/v1/agent/self", &info, nil); err != nil {
			return nil, err
		}
		id = info.Stats["client"]["node_id"]
	}
	return findNode(c, id)
}

// maxListed bounds how many candidates an ambiguous ID is answered with.
const maxListed = 5

// listedBy returns a hint at the command that lists what was not found.
var listedBy = map[string]string{
	"job":        ": wasmnode job status lists them",
	"allocation": ": wasmnode alloc status lists them",
	"node":       ": wasmnode node status lists them",
}

// one returns the only match of an ID.
func one(what, id string, matches []string) (string, error) {
	switch n := len(matches); n {
	case 0:
		return "", fmt.Errorf("no %s begins with %q%s", what, id, listedBy[what])
	case 1:
		return matches[0], nil
	default:
		listed := strings.Join(matches[:min(n, maxListed)], ", ")
		if n > maxListed {
			listed += ", …"
		}
		return "", fmt.Errorf("%q is ambiguous: %d %ss begin with it: %s", id, n, what, listed)
	}
}
