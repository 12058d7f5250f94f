package schedule

import (
	"fmt"
	"slices"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func priority(n int) func(*nomad.Job) { return func(j *nomad.Job) { j.Priority = &n } }

// uses sets what the task asks for.
func uses(cpu, memory int) func(*nomad.Job) {
	return func(j *nomad.Job) {
		r := j.TaskGroups[0].Tasks[0].Resources
		r.CPU, r.MemoryMB = &cpu, &memory
	}
}

func usesCores(n int) func(*nomad.Job) {
	return func(j *nomad.Job) {
		j.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{Cores: &n, MemoryMB: new(10)}
	}
}

func usesDisk(n int) func(*nomad.Job) {
	return func(j *nomad.Job) { j.TaskGroups[0].EphemeralDisk.SizeMB = &n }
}

// crowded is a node on which jobs already run, of which all may preempt others.
func crowded(t require.TestingT, jobs ...*nomad.Job) *cluster {
	c := newCluster(t, gpuNode("n1"))
	for _, j := range jobs {
		require.Empty(t, c.run(j).Failed, *j.ID)
	}
	c.preempt = true
	return c
}

// preempted are the names of what a decision has preempted.
func preempted(c *cluster, res *Result) (names []string) {
	for id := range res.Preempted {
		names = append(names, c.allocs[id].Name)
	}
	slices.Sort(names)
	return names
}

func job(id string, prio int, change ...func(*nomad.Job)) *nomad.Job {
	return testJob("service", append([]func(*nomad.Job){named(id), priority(prio)}, change...)...)
}

func TestWhatIsInTheWayOfAMoreImportantJobIsPreempted(t *testing.T) {
	for title, tt := range map[string]struct {
		running []*nomad.Job
		wants   *nomad.Job
		victims []string
	}{
		"memory": {
			[]*nomad.Job{job("low", 20, uses(10, 300), count1(3))}, job("high", 50, uses(10, 300)), []string{"low.g[2]"},
		},
		"cpu": {
			[]*nomad.Job{job("low", 20, uses(300, 10), count1(3))}, job("high", 50, uses(300, 10)), []string{"low.g[2]"},
		},
		"disk": {
			[]*nomad.Job{job("low", 20, usesDisk(300), count1(3))}, job("high", 50, usesDisk(300)), []string{"low.g[2]"},
		},
		"a static port": {
			[]*nomad.Job{job("other", 10), job("low", 20, staticPorts(80))}, job("high", 50, staticPorts(80)), []string{"low.g[0]"},
		},
		"cores": {
			[]*nomad.Job{job("other", 10, uses(0, 10)), job("low", 20, usesCores(1), count1(4))}, job("high", 50, usesCores(2)), []string{"low.g[2]", "low.g[3]"},
		},
		"devices": {
			[]*nomad.Job{job("other", 10), job("low", 20, asks(ask("nvidia/gpu", 1)), count1(2))}, job("high", 50, asks(ask("nvidia/gpu", 1))), []string{"low.g[1]"},
		},
		"several things, of several": {
			[]*nomad.Job{job("web", 20, staticPorts(80), uses(10, 100)), job("big", 20, uses(10, 800))},
			job("high", 50, staticPorts(80), uses(10, 500)), []string{"big.g[0]", "web.g[0]"},
		},
		"the least important, though more of them": {
			[]*nomad.Job{job("mid", 40, uses(10, 400)), job("low", 20, uses(10, 200), count1(2))}, job("high", 50, uses(10, 500)), []string{"low.g[0]", "low.g[1]"},
		},
		"a more important one where the least important are not enough, and no more of those than needed": {
			[]*nomad.Job{job("mid", 40, uses(10, 500)), job("low", 20, uses(10, 100), count1(4))}, job("high", 50, uses(10, 600)), []string{"mid.g[0]"},
		},
		"one that is large enough before several": {
			[]*nomad.Job{job("big", 20, uses(10, 600)), job("low", 20, uses(10, 100), count1(4))}, job("high", 50, uses(10, 500)), []string{"big.g[0]"},
		},
		"nothing where there is room": {
			[]*nomad.Job{job("low", 20, uses(10, 300))}, job("high", 50, uses(10, 300)), nil,
		},
		"nothing of a job that is not less important by ten": {
			[]*nomad.Job{job("near", 41, uses(10, 800))}, job("high", 50, uses(10, 300)), nil,
		},
		"nothing when all that may be is not enough": {
			[]*nomad.Job{job("near", 41, uses(10, 800)), job("low", 20, uses(10, 100))}, job("high", 50, uses(10, 300)), nil,
		},
	} {
		t.Run(title, func(t *testing.T) {
			c := crowded(t, tt.running...)
			res := c.run(tt.wants)
			require.Equal(t, tt.victims, preempted(c, res))
			require.Equal(t, uint64(len(tt.victims)), res.Desired["g"].Preemptions)
			for id, by := range res.Preempted {
				require.Equal(t, res.Place[0].ID, by)
				require.Contains(t, res.Place[0].PreemptedAllocations, id)
			}
			require.False(t, c.run(tt.wants).Changes(), "deciding again decides the same")
		})
	}
}

func TestNothingIsPreemptedUnlessItIsEnabled(t *testing.T) {
	c := crowded(t, job("low", 20, uses(10, 900)))
	c.preempt = false
	res := c.run(job("high", 90, uses(10, 300)))
	require.Empty(t, res.Place)
	require.Equal(t, map[string]int{"memory": 1}, res.Failed["g"].DimensionExhausted)
	require.Empty(t, res.Preempted)
}

func TestANodeWithRoomIsPreferredToPreemption(t *testing.T) {
	c := crowded(t, job("low", 20, uses(10, 900)))
	c.nodes = append(c.nodes, testNode("n2"))
	res := c.run(job("high", 90, uses(10, 300), count1(3)))
	require.Len(t, res.Place, 3)
	require.Empty(t, res.Preempted)
	res = c.run(job("high", 90, uses(10, 300), count1(4), atVersion(2)))
	require.Equal(t, []string{"low.g[0]"}, preempted(c, res))
}

func TestTheNodeWithTheLeastToLoseIsTaken(t *testing.T) {
	c := crowded(t, job("mid", 30, uses(10, 900)))
	c.nodes = append(c.nodes, testNode("n2"))
	c.preempt = false
	c.run(job("low", 20, uses(10, 300), count1(3)))
	c.preempt = true
	res := c.run(job("high", 90, uses(10, 800)))
	require.Equal(t, []string{"low.g[0]", "low.g[1]", "low.g[2]"}, preempted(c, res))
}

func TestWhatAVictimHeldIsItsPreemptorsAndNobodyElses(t *testing.T) {
	c := crowded(t, job("low", 20, uses(10, 900)))
	c.run(job("high", 50, uses(10, 500)))
	low := c.sorted()[0]

	res := c.run(job("low", 20, uses(10, 900)))
	require.Empty(t, res.Place, "its own successor waits for room")
	require.Empty(t, c.run(job("third", 20, uses(10, 300))).Place, "what is left of it is free when it has ended")
	c.end(low.ID, structs.ClientComplete)
	require.Len(t, c.run(job("third", 20, uses(10, 300))).Place, 1)
}

func TestWhoWaitsForItsVictimsCanBePreemptedItself(t *testing.T) {
	c := crowded(t, job("low", 20, uses(10, 450), count1(2)))
	c.run(job("mid", 50, uses(10, 800)))
	res := c.run(job("high", 90, uses(10, 900)))
	require.Equal(t, []string{"mid.g[0]"}, preempted(c, res), "what that one waits for goes anyway")
	mid := c.allocs[res.Place[0].PreemptedAllocations[0]]
	require.Empty(t, c.run(job("other", 5, uses(10, 200))).Place)
	c.end(mid.ID, structs.ClientComplete)
	require.Empty(t, c.run(job("other", 5, uses(10, 200))).Place, "its victims have not ended")
	require.False(t, c.run(job("high", 90, uses(10, 900))).Changes())
}

func TestAPortThatSeveralShareIsFreeWhenAllAreGone(t *testing.T) {
	shared := func(j *nomad.Job) {
		staticPorts(80)(j)
		j.TaskGroups[0].Networks[0].ReservedPorts[0].IgnoreCollision = true
	}
	c := crowded(t, job("a", 20, shared), job("b", 20, shared))
	require.Equal(t, []string{"a.g[0]", "b.g[0]"}, preempted(c, c.run(job("high", 90, staticPorts(80)))))
}

func TestASystemJobPreemptsOnEachNode(t *testing.T) {
	c := newCluster(t, testNode("n1"), testNode("n2"))
	c.run(job("low", 20, uses(10, 900), count1(2)))
	c.preempt = true
	res := c.run(testJob("system", named("sys"), priority(70), uses(10, 200)))
	require.Len(t, res.Place, 2)
	require.Equal(t, []string{"low.g[0]", "low.g[1]"}, preempted(c, res))
}

func TestAReplacementPreemptsForWhatItNeedsMoreThanItsPredecessor(t *testing.T) {
	c := crowded(t, job("low", 20, uses(10, 100), count1(5)), job("high", 90, uses(10, 500)))
	res := c.run(job("high", 90, uses(10, 700), atVersion(2)))
	require.Equal(t, []string{"low.g[3]", "low.g[4]"}, preempted(c, res))
	require.Len(t, res.Stop, 1)
	require.Equal(t, res.Stop[0].ID, res.Place[0].PreviousAllocation)
}

func TestFiveHundredMakeRoomForAHundred(t *testing.T) {
	n := testNode("n1")
	n.Resources = structs.NodeResources{CPUMHz: 500 * 20, Cores: 8, MemoryMB: 500 * 10, DiskMB: 1 << 30}
	c := newCluster(t, n)
	for i := range 50 {
		c.run(job(fmt.Sprintf("low-%02d", i), 10+i%3, uses(20, 10), count1(10)))
	}
	c.preempt = true
	res := c.run(job("high", 90, uses(60, 30), count1(100)))
	require.Len(t, res.Place, 100)
	require.Len(t, res.Preempted, 300, "exactly what is needed")
	for _, a := range res.Place {
		require.Len(t, a.PreemptedAllocations, 3)
	}
	most := 0
	for id := range res.Preempted {
		most = max(most, *c.allocs[id].Job.Priority)
	}
	require.Equal(t, 11, most, "170 of priority 10 and 130 of 11 are enough")
	for _, a := range c.sorted() {
		if *a.Job.Priority == 10 {
			require.Contains(t, res.Preempted, a.ID)
		}
	}
}
