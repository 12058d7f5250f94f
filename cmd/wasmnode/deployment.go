package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/ryanuber/columnize"
)

// findDeployment returns the one deployment whose ID begins with a text, and has the client ask
// in its namespace, as [findJob] does.
func findDeployment(c *nomad.Client, id string) (*nomad.Deployment, error) {
	list, _, err := c.Deployments().PrefixList(id)
	if err != nil {
		return nil, err
	}
	byID := map[string]*nomad.Deployment{}
	for _, d := range list {
		byID[d.ID] = d
	}
	if id, err = one("deployment", id, slices.Sorted(maps.Keys(byID))); err != nil {
		return nil, err
	}
	c.SetNamespace(byID[id].Namespace)
	return byID[id], nil
}

// onDeployment reads a command line whose argument names a deployment. Without one it has
// printed why, and the exit code is 1.
func (m meta) onDeployment(f *flags, args []string, usage string) (*nomad.Client, *nomad.Deployment) {
	client := m.connect(f, args, 1, 1, usage)
	if client == nil {
		return nil, nil
	}
	d, err := findDeployment(client, f.Arg(0))
	if err != nil {
		m.fail(f, err)
		return nil, nil
	}
	return client, d
}

// followDeployment prints what came of a person's change of a deployment, and follows it
// unless it is not to be. It returns the exit code.
func (m meta) followDeployment(f *flags, client *nomad.Client, change *nomad.DeploymentUpdateResponse, done string, detach bool) int {
	if *f.json {
		return m.printJSON(change)
	}
	m.ui.Output(done)
	switch {
	case change.EvalID == "":
		return 0
	case detach:
		m.ui.Output("Evaluation ID: " + change.EvalID)
		return 0
	}
	return (&monitor{meta: m, client: client, flags: f, health: true}).follow(change.EvalID)
}

// listDeployments prints deployments, for people or for programs, and returns the exit code.
func (m meta) listDeployments(f *flags, list []*nomad.Deployment) int {
	switch {
	case *f.json:
		return m.printJSON(list)
	case len(list) == 0:
		m.ui.Output("No deployments found")
	default:
		m.deploymentTable(f, list)
	}
	return 0
}

// deploymentTable lists deployments in the order in which they are given.
func (m meta) deploymentTable(f *flags, list []*nomad.Deployment) {
	rows := [][]string{{"ID", "Job ID", "Job Version", "Status", "Description"}}
	for _, d := range list {
		rows = append(rows, []string{f.short(d.ID), d.JobID, strconv.FormatUint(d.JobVersion, 10), d.Status, d.StatusDescription})
	}
	m.table(rows)
}

// showDeployment prints a deployment. That of a job that is shown has its name above.
func (m meta) showDeployment(f *flags, d *nomad.Deployment, ofJob bool) {
	m.ui.Output(deploymentText(f, d, ofJob))
}

// deploymentText is a deployment as people see it.
func deploymentText(f *flags, d *nomad.Deployment, ofJob bool) string {
	lines := []string{"ID\x1f" + f.short(d.ID)}
	if !ofJob {
		lines = append(lines, "Job ID\x1f"+cell(d.JobID), "Job Version\x1f"+strconv.FormatUint(d.JobVersion, 10))
	}
	lines = append(lines, "Status\x1f"+d.Status, "Description\x1f"+cell(d.StatusDescription))
	text := columnize.Format(lines, &columnize.Config{Delim: "\x1f", Glue: " = ", Empty: "<none>"})
	if len(d.TaskGroups) == 0 {
		return text
	}
	return text + "\n\nDeployed\n" + deployedText(d)
}

// deployedText is a deployment's groups as a table. It has the columns that any of them has a
// use for.
func deployedText(d *nomad.Deployment) string {
	reverts, canaries, deadline := false, false, false
	for _, g := range d.TaskGroups {
		reverts = reverts || g.AutoRevert
		canaries = canaries || g.DesiredCanaries > 0
		deadline = deadline || g.ProgressDeadline > 0
	}
	rows := [][]string{{"Task Group", "Auto Revert", "Promoted", "Desired", "Canaries", "Placed", "Healthy", "Unhealthy", "Progress Deadline"}}
	for _, name := range slices.Sorted(maps.Keys(d.TaskGroups)) {
		g := d.TaskGroups[name]
		promoted, by := "N/A", "N/A"
		if g.DesiredCanaries > 0 {
			promoted = strconv.FormatBool(g.Promoted)
		}
		if !g.RequireProgressBy.IsZero() {
			by = g.RequireProgressBy.Format(time.RFC3339)
		}
		rows = append(rows, []string{cell(name), strconv.FormatBool(g.AutoRevert), promoted, strconv.Itoa(g.DesiredTotal),
			strconv.Itoa(g.DesiredCanaries), strconv.Itoa(g.PlacedAllocs), strconv.Itoa(g.HealthyAllocs), strconv.Itoa(g.UnhealthyAllocs), by})
	}
	used := []bool{true, reverts, canaries, true, canaries, true, true, true, deadline}
	lines := make([]string, len(rows))
	for i, row := range rows {
		var cells []string
		for j, c := range row {
			if used[j] {
				cells = append(cells, c)
			}
		}
		lines[i] = strings.Join(cells, "\x1f")
	}
	return columnize.Format(lines, &columnize.Config{Delim: "\x1f", Glue: "  ", Empty: "<none>"})
}

// groupsFlag adds a flag that names a group and may be given several times.
func groupsFlag(f *flags) *[]string {
	var groups []string
	f.Func("group", "", func(name string) error {
		if name == "" {
			return errors.New("it has no name")
		}
		groups = append(groups, name)
		return nil
	})
	return &groups
}

// promote promotes some groups of a deployment, or all, and follows it unless it is not to
// be. It returns the exit code.
func (m meta) promote(f *flags, client *nomad.Client, id string, groups []string, detach bool) int {
	var change *nomad.DeploymentUpdateResponse
	var err error
	if len(groups) == 0 {
		change, _, err = client.Deployments().PromoteAll(id, nil)
	} else {
		change, _, err = client.Deployments().PromoteGroups(id, groups, nil)
	}
	if err != nil {
		return m.fail(f, err)
	}
	return m.followDeployment(f, client, change, fmt.Sprintf("Deployment %q promoted", id), detach)
}
