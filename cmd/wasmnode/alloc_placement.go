package main

import (
	"maps"
	"slices"
	"strconv"

	nomad "github.com/hashicorp/nomad/api"
)

// placement prints what the scheduler found of the nodes when it placed an allocation: why
// some were left out, and the scores of those that suited best.
func (c *allocStatusCommand) placement(f *flags, m *nomad.AllocationMetric) {
	if m == nil || len(m.ScoreMetaData) == 0 {
		return
	}
	c.ui.Output("\nPlacement Metrics")
	for _, line := range placementReasons(m, nil) {
		c.ui.Output("  * " + line)
	}
	names := map[string]bool{}
	for _, s := range m.ScoreMetaData {
		for name := range s.Scores {
			names[name] = true
		}
	}
	columns := slices.Sorted(maps.Keys(names))
	rows := [][]string{slices.Concat([]string{"Node"}, columns, []string{"final score"})}
	for _, s := range m.ScoreMetaData {
		row := []string{f.short(s.NodeID)}
		for _, name := range columns {
			row = append(row, score(s.Scores[name]))
		}
		rows = append(rows, append(row, score(s.NormScore)))
	}
	c.table(rows)
}

func score(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
