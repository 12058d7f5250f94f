package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

type scalingPolicyInfoCommand struct{ meta }

// Synopsis implements [subcommand].
func (*scalingPolicyInfoCommand) Synopsis() string { return "Show a scaling policy" }

// Help implements [subcommand].
func (*scalingPolicyInfoCommand) Help() string {
	return `Usage: wasmnode scaling policy info [options] POLICY

  Shows a scaling policy: what it is for, its bounds, and what it tells the autoscaler.
  POLICY may be the beginning of an ID.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *scalingPolicyInfoCommand) Run(args []string) int {
	f := c.flags("scaling policy info")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	policy, err := findPolicy(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(policy)
	}
	text, err := json.MarshalIndent(policy.Policy, "", "  ")
	if err != nil {
		return c.fail(f, err)
	}
	c.pairs([][2]string{
		{"ID", policy.ID},
		{"Enabled", strconv.FormatBool(*policy.Enabled)},
		{"Target", targetText(policy.Target)},
		{"Min", strconv.FormatInt(*policy.Min, 10)},
		{"Max", strconv.FormatInt(*policy.Max, 10)},
	})
	c.ui.Output("\nPolicy\n" + string(text))
	return 0
}

func findPolicy(client *nomad.Client, id string) (*nomad.ScalingPolicy, error) {
	stubs, _, err := client.Scaling().ListPolicies(&nomad.QueryOptions{Prefix: id})
	if err != nil {
		return nil, err
	}
	var matches []string
	for _, p := range stubs {
		matches = append(matches, p.ID)
	}
	if id, err = one("policy ID", id, matches); err != nil {
		return nil, err
	}
	policy, _, err := client.Scaling().GetPolicy(id, nil)
	return policy, err
}

// targetText is what a policy is for.
func targetText(target map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(target)) {
		parts = append(parts, fmt.Sprintf("%s:%s", key, target[key]))
	}
	return strings.Join(parts, ",")
}
