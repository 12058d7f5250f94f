package main

import (
	"bytes"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func TestScoresOfAPlacementAreATable(t *testing.T) {
	var out bytes.Buffer
	c := &allocStatusCommand{meta{ui: ui{out: &out}}}
	f := c.flags("alloc status")
	c.placement(f, &nomad.AllocationMetric{})
	require.Empty(t, out.String())
	c.placement(f, &nomad.AllocationMetric{
		NodesEvaluated: 3, ConstraintFiltered: map[string]int{"${node.class} = big": 1},
		ScoreMetaData: []*nomad.NodeScoreMeta{
			{NodeID: "5b9fc6a4-6c66-4fbc-9ba6-0b8a3f7f4a11", Scores: map[string]float64{"binpack": 0.12345, "node-affinity": 1}, NormScore: 0.56},
			{NodeID: "6b9fc6a4-6c66-4fbc-9ba6-0b8a3f7f4a11", Scores: map[string]float64{"binpack": 0.5, "node-affinity": -0.5}, NormScore: 0},
		},
	})
	require.Equal(t, `
Placement Metrics
  * Constraint "${node.class} = big": 1 nodes excluded by filter
Node      binpack  node-affinity  final score
5b9fc6a4  0.123    1              0.56
6b9fc6a4  0.5      -0.5           0
`, out.String())
}
