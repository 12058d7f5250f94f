package main

import (
	"fmt"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

// hostVolumes lists the host volumes that a task of an allocation mounts, where it does.
func (c *allocStatusCommand) hostVolumes(a *nomad.Allocation, task string) {
	rows := [][]string{{"ID", "Read Only"}}
	for _, g := range a.Job.TaskGroups {
		for _, t := range g.Tasks {
			if *g.Name == a.TaskGroup && t.Name == task {
				rows = append(rows, hostMounts(g, t)...)
			}
		}
	}
	if len(rows) > 1 {
		c.ui.Output("\nHost Volumes:")
		c.table(rows)
	}
}

// hostMounts are what a task mounts of its group's host volumes, by their names there.
func hostMounts(g *nomad.TaskGroup, t *nomad.Task) (rows [][]string) {
	for _, m := range t.VolumeMounts {
		if m.Volume == nil || g.Volumes[*m.Volume] == nil || !strings.EqualFold(g.Volumes[*m.Volume].Type, "host") {
			continue
		}
		rows = append(rows, []string{g.Volumes[*m.Volume].Name, fmt.Sprint(m.ReadOnly != nil && *m.ReadOnly)})
	}
	return rows
}
