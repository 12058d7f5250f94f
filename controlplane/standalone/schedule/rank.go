package schedule

import (
	"cmp"
	"math"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// Algorithm is which of the nodes that have room is preferred.
type Algorithm string

// The algorithms, with Nomad's names. The zero value is Binpack.
const (
	Binpack Algorithm = "binpack" // the node of which the most is taken
	Spread  Algorithm = "spread"  // the node of which the least is taken
)

// The names of scores, as Nomad's tools show them.
const (
	scoreBinpack      = "binpack"
	scoreAntiAffinity = "job-anti-affinity"
	scoreAffinity     = "node-affinity"
	scoreSpread       = "allocation-spread"
	scorePenalty      = "node-reschedule-penalty"
)

// maxScores is how many nodes' scores are kept with a placement, the best ones'.
const maxScores = 5

// offer is what a node would give to an allocation, and how well it suits.
type offer struct {
	node      *structs.Node
	resources structs.AllocatedResources
	score     *structs.NodeScore
}

// best returns the offer with the highest score, the first of equals, and notes the scores
// of the best; nil: there is none.
func best(offers []*offer, m *structs.PlacementMetrics) *offer {
	if len(offers) == 0 {
		return nil
	}
	slices.SortStableFunc(offers, func(a, b *offer) int { return cmp.Compare(b.score.NormScore, a.score.NormScore) })
	for _, o := range offers[:min(len(offers), maxScores)] {
		m.ScoreMetaData = append(m.ScoreMetaData, o.score)
	}
	return offers[0]
}

// score says how well a node suits an allocation that it has room for: the mean of the
// scores that apply, each from -1 to 1.
func (s *scheduler) score(n *structs.Node, a *Alloc, r structs.AllocatedResources, w wanted) *structs.NodeScore {
	score := &structs.NodeScore{NodeID: n.ID, Scores: map[string]float64{}}
	sum, applied := 0.0, 0
	add := func(name string, value float64, applies bool) {
		score.Scores[name] = value
		if applies {
			sum, applied = sum+value, applied+1
		}
	}
	add(scoreBinpack, s.packing(n, a, r), true)
	beside := s.groupOn(n.ID, w)
	collision := 0.0
	if beside > 0 {
		collision = max(-1, -float64(beside+1)/float64(max(1, *w.group.Count)))
	}
	add(scoreAntiAffinity, collision, beside > 0)
	failedHere := w.reschedule != nil && w.previous.NodeID == n.ID
	penalty := 0.0
	if failedHere {
		penalty = -1
	}
	add(scorePenalty, penalty, failedHere)
	affinity := s.suits(n, w.group).affinity
	add(scoreAffinity, affinity, affinity != 0)
	if spreads := slices.Concat(s.Job.Spreads, w.group.Spreads); len(spreads) > 0 {
		spread := s.spread(n, w, spreads)
		add(scoreSpread, spread, spread != 0)
	}
	score.NormScore = sum / float64(applied)
	return score
}

// packing is how full a node's CPU and memory are with an allocation, by the curve of
// "best fit, version 3": from 0, empty, to 1, full; the other way round where the scheduler
// is to keep nodes as empty as it can.
func (s *scheduler) packing(n *structs.Node, a *Alloc, r structs.AllocatedResources) float64 {
	has, used := capacityOf(n), s.cap.with(n, s.cap.claim(a.Allocation, n.ID), r)
	free := func(used, has int) float64 {
		if has <= 0 {
			return 0
		}
		return min(1, max(0, 1-float64(used)/float64(has)))
	}
	empty := (math.Pow(10, free(used.cpu, has.cpu)) + math.Pow(10, free(used.memory, has.memory)) - 2) / 18
	if s.Algorithm == Spread {
		return empty
	}
	return 1 - empty
}

// affinity is how well a node matches the affinities of a group: from -1, all that it is to
// avoid, to 1, all that is wanted.
func (s *scheduler) affinity(n *structs.Node, g *nomad.TaskGroup) float64 {
	all := slices.Concat(s.Job.Affinities, g.Affinities)
	for _, t := range g.Tasks {
		all = append(all, t.Affinities...)
	}
	return affinityScore(all, func(c *nomad.Constraint) bool { return meets(c, n) })
}

// affinityScore is the sum of the weights of the affinities that are met, over that of all
// weights' sizes; 0 where there are none.
func affinityScore(affinities []*nomad.Affinity, met func(*nomad.Constraint) bool) float64 {
	var score, total float64
	for _, a := range affinities {
		weight := defaultWeight
		if a.Weight != nil {
			weight = float64(*a.Weight)
		}
		total += math.Abs(weight)
		if met(&nomad.Constraint{LTarget: a.LTarget, RTarget: a.RTarget, Operand: a.Operand}) {
			score += weight
		}
	}
	if total == 0 {
		return 0
	}
	return score / total
}

const defaultWeight = 50.0 // Nomad's, of affinities and spreads

// spread is how much an allocation on a node brings the group's allocations towards what its
// spreads ask for.
func (s *scheduler) spread(n *structs.Node, w wanted, spreads []*nomad.Spread) (score float64) {
	total := 0.0
	for _, sp := range spreads {
		total += weightOf(sp)
	}
	if total == 0 {
		return 0
	}
	for _, sp := range spreads {
		value, ok := resolve(sp.Attribute, n)
		used := s.groupBy(sp.Attribute, w)
		switch {
		case !ok:
			score--
		case len(sp.SpreadTarget) == 0:
			score += evenly(used, value)
		default:
			score += towards(sp, value, used[value], *w.group.Count) * weightOf(sp) / total
		}
	}
	return score
}

func weightOf(sp *nomad.Spread) float64 {
	if sp.Weight == nil {
		return defaultWeight
	}
	return float64(*sp.Weight)
}

// towards is how much of what a value is to have it would still lack; below 0 when it has
// more. A value that is not named shares what is left of the percents.
func towards(sp *nomad.Spread, value string, used, count int) float64 {
	percent := 100
	for _, target := range sp.SpreadTarget {
		if target.Value == value {
			percent = int(target.Percent)
			break
		}
		percent -= int(target.Percent)
	}
	wants := float64(percent) / 100 * float64(count)
	if wants <= 0 {
		return -1
	}
	return max(-1, (wants-float64(used+1))/wants)
}

// evenly is how much an allocation at a value makes the values more alike that have any.
func evenly(used map[string]int, value string) float64 {
	if len(used) == 0 {
		return 0
	}
	least, most := math.MaxInt, 0
	for _, n := range used {
		least, most = min(least, n), max(most, n)
	}
	switch has := used[value]; {
	case has != least:
		return max(-1, float64(least-has)/float64(least))
	case least == most:
		return -1
	default:
		return min(1, float64(most-least)/float64(least))
	}
}

// groupOn counts the group's allocations on a node, but for the one that is replaced.
func (s *scheduler) groupOn(nodeID string, w wanted) int {
	if s.groups == nil {
		s.groups = map[groupNode]int{}
		for _, a := range s.running() {
			s.groups[groupNode{a.TaskGroup, a.NodeID}]++
		}
	}
	n := s.groups[groupNode{*w.group.Name, nodeID}]
	if w.replaces(nodeID) {
		n--
	}
	return n
}

// replaces reports whether an allocation is to take the place of one that runs on a node.
func (w wanted) replaces(nodeID string) bool {
	return w.stopping != "" && w.previous.NodeID == nodeID && !w.previous.Terminal()
}

// groupBy counts the group's allocations by what their nodes have for an attribute.
func (s *scheduler) groupBy(attribute string, w wanted) map[string]int {
	used := map[string]int{}
	for _, n := range s.Nodes {
		if value, ok := resolve(attribute, n); ok {
			if c := s.groupOn(n.ID, w); c > 0 {
				used[value] += c
			}
		}
	}
	return used
}

// groupNode is a group on a node.
type groupNode struct{ group, nodeID string }
