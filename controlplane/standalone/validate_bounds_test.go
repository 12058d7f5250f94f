package standalone

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// A job is told its faults, but is not made to hold or compute more than it has itself.
func TestWhatIsSaidOfAJobIsBounded(t *testing.T) {
	s, err := Open(Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	long := strings.Repeat("ä", 100_000)
	for name, put := range map[string]func(*nomad.Job){
		"a long name of a group": func(j *nomad.Job) {
			j.TaskGroups[0].Name = &long
			j.TaskGroups[0].Constraints = slices.Repeat([]*nomad.Constraint{{Operand: "?"}}, 5000)
		},
		"a long name of a task":    func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Name = long },
		"many faults":              func(j *nomad.Job) { j.Affinities = slices.Repeat([]*nomad.Affinity{{Weight: new(int8(101))}}, 900) },
		"a long word":              func(j *nomad.Job) { j.Constraints = []*nomad.Constraint{{LTarget: "x", Operand: long}} },
		"many nulls":               func(j *nomad.Job) { j.TaskGroups = make([]*nomad.TaskGroup, 100_000) },
		"many ports, a long label": func(j *nomad.Job) { j.TaskGroups[0].Networks = manyPorts(long) },
	} {
		t.Run(name, func(t *testing.T) {
			j := testJob("bounds", "batch")
			put(j)
			faults, warnings := s.ValidateJob(j)
			require.NotEmpty(t, faults)
			require.LessOrEqual(t, len(faults)+len(warnings), 2*(maxRemarks+1))
			require.Less(t, len(strings.Join(append(faults, warnings...), "\n")), 2*maxRemarks*maxRemark)
		})
	}
}

func manyPorts(label string) []*nomad.NetworkResource {
	return []*nomad.NetworkResource{{DynamicPorts: slices.Repeat([]nomad.Port{{Label: label, To: -7}}, 50)}}
}

// While a job is placed nobody else is served: one that would be costly to place is refused.
func TestTheRulesOfAJobAreBounded(t *testing.T) {
	s, err := Open(Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	distinct := &nomad.Constraint{LTarget: "${node.class}", Operand: nomad.ConstraintDistinctProperty}
	equal := &nomad.Constraint{LTarget: "${node.class}", RTarget: "x", Operand: "="}
	for what, put := range map[string]func(j *nomad.Job, n int) (most int){
		"constraints": func(j *nomad.Job, n int) int {
			j.Constraints = slices.Repeat([]*nomad.Constraint{equal}, n)
			return maxRules - 1 // there is a datacenter
		},
		"constraint properties": func(j *nomad.Job, n int) int {
			j.TaskGroups[0].Constraints = slices.Repeat([]*nomad.Constraint{distinct}, n)
			return maxLooks
		},
		"targets of spreads": func(j *nomad.Job, n int) int {
			sp := nomad.NewSpread("${node.class}", 50, nil)
			for i := range n {
				sp.SpreadTarget = append(sp.SpreadTarget, &nomad.SpreadTarget{Value: fmt.Sprint(i)})
			}
			j.Spreads = []*nomad.Spread{sp}
			return maxTargets
		},
		"tasks": func(j *nomad.Job, n int) int {
			task := *j.TaskGroups[0].Tasks[0]
			j.TaskGroups[0].Tasks = nil
			for i := range n {
				t := task
				t.Name = fmt.Sprint(i)
				j.TaskGroups[0].Tasks = append(j.TaskGroups[0].Tasks, &t)
			}
			return maxTasks
		},
	} {
		t.Run(what, func(t *testing.T) {
			job := func(n int) *nomad.Job {
				j := testJob("rules", "service")
				j.Datacenters = []string{"*"}
				put(j, n)
				return j
			}
			most := put(testJob("rules", "service"), 0)
			faults, _ := s.ValidateJob(job(most))
			require.Empty(t, faults)
			faults, _ = s.ValidateJob(job(most + 1))
			require.Len(t, faults, 1)
			require.Contains(t, faults[0], strings.Fields(what)[0])
		})
	}
}

// A priority of zero is none, and the description of a page is as long as Nomad's.
func TestWhatAJobAsAWholeMayBe(t *testing.T) {
	s := withNode(t, "")
	j := testJob("j", "batch", priority(0))
	faults, _ := s.ValidateJob(j)
	require.Empty(t, faults)
	require.Equal(t, 50, *j.Priority)
	described := func(n int) []string {
		faults, _ := s.ValidateJob(testJob("j", "batch", func(j *nomad.Job) {
			j.UI = &nomad.JobUIConfig{Description: strings.Repeat("x", n)}
		}))
		return faults
	}
	require.Empty(t, described(1000))
	require.Equal(t, []string{"ui: description: UI description must be under 1000 characters, currently 1001"}, described(1001))
}
