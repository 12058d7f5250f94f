package main

import "fmt"

// enterprise are the commands of Nomad Enterprise, and what they ask a node for.
var enterprise = map[string]string{
	"license get":            "/v1/operator/license",
	"license inspect":        "/v1/operator/license",
	"operator utilization":   "/v1/operator/utilization",
	"quota apply":            "/v1/quotas",
	"quota delete":           "/v1/quotas",
	"quota init":             "/v1/quotas",
	"quota inspect":          "/v1/quotas",
	"quota list":             "/v1/quotas",
	"quota status":           "/v1/quotas",
	"recommendation apply":   "/v1/recommendations",
	"recommendation dismiss": "/v1/recommendations",
	"recommendation info":    "/v1/recommendations",
	"recommendation list":    "/v1/recommendations",
	"sentinel apply":         "/v1/sentinel/policies",
	"sentinel delete":        "/v1/sentinel/policies",
	"sentinel list":          "/v1/sentinel/policies",
	"sentinel read":          "/v1/sentinel/policies",
}

// enterpriseCommand asks for what Nomad's community edition does not have either, and shows
// the answer.
type enterpriseCommand struct {
	meta
	name, path string
}

// Synopsis implements [subcommand].
func (*enterpriseCommand) Synopsis() string { return "Is of Nomad Enterprise" }

// Help implements [subcommand].
func (c *enterpriseCommand) Help() string {
	return fmt.Sprintf(`Usage: wasmnode %s [options] [ARG...]

  Is of Nomad Enterprise: the node answers as Nomad's community edition does.

Options:
`, c.name) + commonOptions
}

// Run implements [subcommand].
func (c *enterpriseCommand) Run(args []string) int {
	f := c.flags(c.name)
	client := c.connect(f, args, 0, maxMetaArguments, c.Help())
	if client == nil {
		return 1
	}
	var answer any
	if _, err := client.Raw().Query(c.path, &answer, nil); err != nil {
		return c.fail(f, err)
	}
	return c.printJSON(answer)
}
