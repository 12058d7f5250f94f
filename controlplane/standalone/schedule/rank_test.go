package schedule

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wasmnode/wasmnode/structs"
)

// racks are nodes with much room, so many in each rack.
func racks(sizes ...int) (nodes []*structs.Node) {
	for rack, size := range sizes {
		for i := range size {
			n := testNode(fmt.Sprintf("n%d-%d", rack, i))
			n.Meta["rack"] = fmt.Sprint("r", rack)
			n.Resources = structs.NodeResources{CPUMHz: 100_000, Cores: 4, MemoryMB: 100_000, DiskMB: 100_000}
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func spreadBy(attribute string, weight int8, percents map[string]uint8) func(*nomad.Job) {
	return func(j *nomad.Job) {
		sp := &nomad.Spread{Attribute: attribute, Weight: &weight}
		for _, value := range slices.Sorted(maps.Keys(percents)) {
			sp.SpreadTarget = append(sp.SpreadTarget, &nomad.SpreadTarget{Value: value, Percent: percents[value]})
		}
		j.Spreads = append(j.Spreads, sp)
	}
}

func affinity(l, op, r string, weight int8) func(*nomad.Job) {
	return func(j *nomad.Job) {
		j.Affinities = append(j.Affinities, &nomad.Affinity{LTarget: l, Operand: op, RTarget: r, Weight: &weight})
	}
}

// perRack counts the placed by their nodes' racks.
func perRack(c *cluster, res *Result) map[string]int {
	n := map[string]int{}
	for _, a := range res.Place {
		for _, node := range c.nodes {
			if node.ID == a.NodeID {
				n[node.Meta["rack"]]++
			}
		}
	}
	return n
}

func TestSpreadsWithTargetsAreMet(t *testing.T) {
	for name, tt := range map[string]struct {
		percents map[string]uint8
		want     map[string]int
	}{
		"all named":          {map[string]uint8{"r0": 50, "r1": 30, "r2": 20}, map[string]int{"r0": 5, "r1": 3, "r2": 2}},
		"the rest is shared": {map[string]uint8{"r0": 60}, map[string]int{"r0": 6, "r1": 2, "r2": 2}},
		"one has all":        {map[string]uint8{"r1": 100}, map[string]int{"r1": 10}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, racks(4, 4, 4)...)
			got := perRack(c, c.schedule(testJob("service", count1(10), spreadBy("${meta.rack}", 100, tt.percents)), false))
			if name == "the rest is shared" {
				require.Greater(t, got["r0"], max(got["r1"], got["r2"]), got) // who shares has no share of its own
				return
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestWhereNoTargetIsNamedAllValuesGetTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := slices.Repeat([]int{rapid.IntRange(1, 4).Draw(t, "nodes")}, rapid.IntRange(1, 4).Draw(t, "racks"))
		c := newCluster(t, racks(sizes...)...)
		count := rapid.IntRange(1, 16).Draw(t, "count")
		got := perRack(c, c.schedule(testJob("service", count1(count), spreadBy("${meta.rack}", 100, nil)), false))
		least, most := count, 0
		for rack := range sizes {
			n := got[fmt.Sprint("r", rack)]
			least, most = min(least, n), max(most, n)
		}
		require.LessOrEqual(t, most-least, 1, "%v", got)
	})
}

func TestOfNodesThatAreAlikeTheOneThatIsWantedMostIsTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := racks(rapid.SliceOfN(rapid.IntRange(1, 2), 1, 6).Draw(t, "racks")...)
		j := testJob("service", count1(1))
		for range rapid.IntRange(1, 4).Draw(t, "affinities") {
			weight := rapid.Int8Range(-100, 100).Filter(func(w int8) bool { return w != 0 }).Draw(t, "weight")
			op := rapid.SampledFrom([]string{"=", "!=", ">=", "regexp", "set_contains_any"}).Draw(t, "operator")
			change := affinity("${meta.rack}", op, rapid.SampledFrom([]string{"r0", "r1", "r2"}).Draw(t, "rack"), weight)
			switch rapid.IntRange(0, 2).Draw(t, "where") {
			case 0:
				change(j)
			case 1:
				within(change, func(a []*nomad.Affinity) { j.TaskGroups[0].Affinities = append(j.TaskGroups[0].Affinities, a...) })
			case 2:
				within(change, func(a []*nomad.Affinity) {
					j.TaskGroups[0].Tasks[0].Affinities = append(j.TaskGroups[0].Tasks[0].Affinities, a...)
				})
			}
		}
		c := newCluster(t, nodes...)
		s := &scheduler{Input: c.input(j, false)}
		res := c.schedule(j, false)
		require.Len(t, res.Place, 1)
		chosen := c.nodes[slices.IndexFunc(c.nodes, func(n *structs.Node) bool { return n.ID == res.Place[0].NodeID })]
		for _, n := range nodes {
			require.LessOrEqual(t, s.affinity(n, j.TaskGroups[0]), s.affinity(chosen, j.TaskGroups[0]))
			require.InDelta(t, 0, s.affinity(n, j.TaskGroups[0]), 1)
		}
		checkScores(t, res.Place[0])
	})
}

// within hands over the affinities that a change would give a job.
func within(change func(*nomad.Job), to func([]*nomad.Affinity)) {
	j := &nomad.Job{}
	change(j)
	to(j.Affinities)
}

// checkScores checks what a placement says of the nodes: the first is the one it is on.
func checkScores(t require.TestingT, a *Alloc) {
	scores := a.Metrics.ScoreMetaData
	require.NotEmpty(t, scores)
	require.LessOrEqual(t, len(scores), maxScores)
	require.Equal(t, a.NodeID, scores[0].NodeID)
	for i, s := range scores {
		for _, name := range []string{scoreBinpack, scoreAntiAffinity, scoreAffinity, scorePenalty} {
			require.Contains(t, s.Scores, name)
		}
		for name, value := range s.Scores {
			require.InDelta(t, 0, value, 1, name)
		}
		require.True(t, i == 0 || s.NormScore <= scores[i-1].NormScore)
	}
}

func TestAllocationsAreKeptTogetherOrApart(t *testing.T) {
	for _, apart := range []bool{false, true} {
		nodes := racks(1, 1)
		c := newCluster(t, nodes...)
		c.schedule(testJob("service", func(j *nomad.Job) { j.ID = new("first") }), false)
		in := c.input(testJob("service", func(j *nomad.Job) { j.ID = new("second") }), false)
		in.Algorithm = map[bool]Algorithm{false: Binpack, true: Spread}[apart]
		res := Schedule(in)
		first := c.sorted()[0]
		require.Equal(t, apart, first.NodeID != res.Place[0].NodeID)
		checkScores(t, res.Place[0])
	}
}

func TestAJobsAllocationsAreApartAndNotWhereTheLastOneFailed(t *testing.T) {
	c := newCluster(t, racks(1, 1, 1)...)
	res := c.schedule(testJob("service", count1(3)), false)
	require.Equal(t, map[string]int{"r0": 1, "r1": 1, "r2": 1}, perRack(c, res))

	c = newCluster(t, racks(1, 1)...)
	j := testJob("service", rescheduledAtOnce)
	first := c.schedule(j, false).Place[0]
	c.end(first.ID, structs.ClientFailed)
	res = c.schedule(j, false)
	require.Len(t, res.Place, 1)
	require.NotEqual(t, first.NodeID, res.Place[0].NodeID)
}
