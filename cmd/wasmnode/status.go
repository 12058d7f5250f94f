package main

import (
	"fmt"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/api/contexts"
)

type statusCommand struct{ meta }

// Synopsis implements [subcommand].
func (*statusCommand) Synopsis() string { return "Show whatever has an ID" }

// Help implements [subcommand].
func (*statusCommand) Help() string {
	return `Usage: wasmnode status [options] [ID]

  Shows the job, allocation, evaluation, deployment, node or namespace whose ID is, or begins
  with, a text.
  Without one it lists the jobs.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *statusCommand) Run(args []string) int {
	f := c.flags("status")
	if !c.parse(f, args, 0, 1, c.Help()) {
		return 1
	}
	if f.NArg() == 0 {
		return (&jobStatusCommand{c.meta}).Run(args)
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	kind, err := kindOf(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	shows := map[contexts.Context]subcommand{
		contexts.Jobs: &jobStatusCommand{c.meta}, contexts.Allocs: &allocStatusCommand{c.meta}, contexts.Evals: &evalStatusCommand{c.meta},
		contexts.Nodes: &nodeStatusCommand{c.meta}, contexts.Deployments: &deploymentStatusCommand{c.meta},
		contexts.Namespaces: &namespaceStatusCommand{c.meta},
	}
	return shows[kind].Run(args)
}

// shown are the kinds of things that have a status to show.
var shown = []contexts.Context{contexts.Jobs, contexts.Allocs, contexts.Evals, contexts.Deployments, contexts.Nodes, contexts.Namespaces}

// kindOf finds the kind of thing whose ID begins with a text. A job of exactly that ID wins.
func kindOf(client *nomad.Client, id string) (contexts.Context, error) {
	found, _, err := client.Search().PrefixSearch(id, contexts.All, nil)
	if err != nil {
		return "", err
	}
	if slices.Contains(found.Matches[contexts.Jobs], id) {
		return contexts.Jobs, nil
	}
	var kinds []contexts.Context
	var words []string
	for _, kind := range shown {
		if len(found.Matches[kind]) > 0 {
			kinds = append(kinds, kind)
			words = append(words, string(kind))
		}
	}
	switch len(kinds) {
	case 0:
		return "", fmt.Errorf("unable to resolve ID: %q", id)
	case 1:
		return kinds[0], nil
	}
	return "", fmt.Errorf("%q is ambiguous: %s begin with it", id, strings.Join(words, " and "))
}
