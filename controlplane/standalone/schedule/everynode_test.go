package schedule

import (
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// everywhere is a version of a system job whose tasks differ from version to version.
func everywhere(version uint64, _ int, update *nomad.UpdateStrategy, change ...func(*nomad.Job)) *nomad.Job {
	return service(version, 1, update, append([]func(*nomad.Job){func(j *nomad.Job) {
		j.Type, j.TaskGroups[0].ReschedulePolicy = new(nomad.JobTypeSystem), nil
	}}, change...)...)
}

// settledEverywhere is a system job of which the first version runs on four nodes and is healthy.
func settledEverywhere(t *testing.T, update *nomad.UpdateStrategy) *cluster {
	c := newCluster(t, testNode("n1"), testNode("n2"), testNode("n3"), testNode("n4"))
	first := everywhere(1, 1, update)
	require.Len(t, c.run(first).Place, 4, "the first version is placed at once")
	require.Equal(t, 4, c.deployments["job"].TaskGroups["g"].DesiredTotal)
	require.False(t, c.run(first).Completed)
	c.decideHealth(true, every)
	require.True(t, c.run(first).Completed)
	return c
}

func TestASystemJobIsUpdatedNodeByNode(t *testing.T) {
	c := settledEverywhere(t, parallel(2))
	next := everywhere(2, 1, parallel(2))
	for _, want := range []string{"n1:v2 n2:v2 n3:v1+ n4:v1+", "n1:v2+ n2:v2+ n3:v2 n4:v2"} {
		res := c.run(next)
		require.Equal(t, want, c.picture())
		require.Equal(t, uint64(2), res.Desired["g"].DestructiveUpdate)
		require.False(t, c.run(next).Changes(), "nothing goes on before it is healthy")
		c.decideHealth(true, every)
	}
	require.True(t, c.run(next).Completed)
	require.False(t, c.run(next).Changes())
}

func TestCanariesOfASystemJobAreAPartOfItsNodes(t *testing.T) {
	for percent, want := range map[int]int{1: 1, 25: 1, 26: 2, 50: 2, 99: 4, 100: 4, 5000: 4} {
		update := &nomad.UpdateStrategy{MaxParallel: new(4), Canary: &percent}
		c := settledEverywhere(t, update)
		require.Zero(t, c.deployments["job"].TaskGroups["g"].DesiredCanaries, "what is new has none")
		res := c.run(everywhere(2, 1, update))
		require.Len(t, res.Stop, want, percent)
		require.Equal(t, uint64(want), res.Desired["g"].Canary)
		require.Equal(t, want, c.deployments["job"].TaskGroups["g"].DesiredCanaries)
	}
}

func TestCanariesOfASystemJobTakeThePlaceOfOldOnes(t *testing.T) {
	update := &nomad.UpdateStrategy{MaxParallel: new(1), Canary: new(50)}
	c := settledEverywhere(t, update)
	next := everywhere(2, 1, update)
	c.run(next)
	require.Equal(t, "n1:v2c n2:v1+ n3:v1+ n4:v1+", c.picture(), "one at a time, canaries too")
	c.decideHealth(true, every)
	c.run(next)
	require.Equal(t, "n1:v2c+ n2:v2c n3:v1+ n4:v1+", c.picture())
	c.decideHealth(true, every)
	require.False(t, c.run(next).Changes(), "a person decides")
	c.promote()
	c.run(next)
	require.Equal(t, "n1:v2+ n2:v2+ n3:v2 n4:v1+", c.picture())
	c.decideHealth(true, every)
	c.run(next)
	c.decideHealth(true, every)
	require.True(t, c.run(next).Completed)
	require.Equal(t, "n1:v2+ n2:v2+ n3:v2+ n4:v2+", c.picture())
}

func TestTheOnlyNodeOfASystemJobIsItsCanary(t *testing.T) {
	update := &nomad.UpdateStrategy{MaxParallel: new(1), Canary: new(1)}
	c := newCluster(t, testNode("n1"))
	c.run(everywhere(1, 1, update))
	c.decideHealth(true, every)
	c.run(everywhere(1, 1, update))
	next := everywhere(2, 1, update)
	c.run(next)
	require.Equal(t, "n1:v2c", c.picture())
	c.decideHealth(true, every)
	require.False(t, c.run(next).Completed)
	c.promote()
	require.True(t, c.run(next).Completed, "there is nothing else")
	require.Equal(t, "n1:v2+", c.picture())
}

func TestWhatAnUpdateOfASystemJobThatDoesNotGoOnLeaves(t *testing.T) {
	update := &nomad.UpdateStrategy{MaxParallel: new(1), Canary: new(25)}
	stop := func(shown string) func(*cluster) {
		return func(c *cluster) { c.find(shown).DesiredStatus = structs.DesiredStop }
	}
	for name, c := range map[string]struct {
		change func(*cluster)
		job    *nomad.Job
		want   string
	}{
		"paused":                 {func(c *cluster) { c.deploy(status(nomad.DeploymentStatusPaused)) }, everywhere(2, 1, update), "n1:v2c n2:v1+ n3:v1+ n4:v1+"},
		"failed":                 {func(c *cluster) { c.deploy(status(nomad.DeploymentStatusFailed)) }, everywhere(2, 1, update), "n1:v2c n2:v1+ n3:v1+ n4:v1+"},
		"superseded":             {func(*cluster) {}, everywhere(3, 1, update), "n1:v3c n2:v1+ n3:v1+ n4:v1+"},
		"gone back":              {func(*cluster) {}, everywhere(3, 1, update, func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].User = "v2" }), "n1:v3c n2:v1+ n3:v1+ n4:v1+"},
		"an old one was stopped": {stop("n2:v1+"), everywhere(2, 1, update), "n1:v2c n2:v1 n3:v1+ n4:v1+"},
		"a canary was stopped":   {stop("n1:v2c"), everywhere(2, 1, update), "n1:v2c n2:v1+ n3:v1+ n4:v1+"},
		"an old one failed":      {func(c *cluster) { c.fail("n2:v1+") }, everywhere(2, 1, update), "n1:v2c n3:v1+ n4:v1+"},
		"a canary failed":        {func(c *cluster) { c.fail("n1:v2c") }, everywhere(2, 1, update), "n2:v1+ n3:v1+ n4:v1+"},
		"a node came":            {func(c *cluster) { c.nodes = append(c.nodes, testNode("n5")) }, everywhere(2, 1, update), "n1:v2c n2:v1+ n3:v1+ n4:v1+ n5:v2"},
		"a node takes nothing":   {func(c *cluster) { c.nodes[0].Eligibility = structs.NodeIneligible }, everywhere(3, 1, update), "n1:v2c n2:v3c n3:v1+ n4:v1+"},
	} {
		t.Run(name, func(t *testing.T) {
			w := settledEverywhere(t, update)
			w.run(everywhere(2, 1, update))
			c.change(w)
			w.run(c.job)
			require.Equal(t, c.want, w.picture())
			require.False(t, w.run(c.job).Changes())
		})
	}
}

func TestWhatFailedWithItsDeploymentIsTriedOnceMore(t *testing.T) {
	c := settledEverywhere(t, parallel(1))
	next := everywhere(2, 1, parallel(1))
	c.run(next)
	c.fail("n1:v2")
	require.False(t, c.run(next).Changes(), "the update waits")
	c.deploy(status(nomad.DeploymentStatusFailed))
	res := c.run(next)
	require.Len(t, res.Place, 1)
	require.Empty(t, res.Stop)
	require.Empty(t, res.Place[0].DeploymentID)
	require.Equal(t, "n1:v2 n2:v1+ n3:v1+ n4:v1+", c.picture())
	c.fail("n1:v2")
	c.now = c.now.Add(time.Hour)
	require.False(t, c.run(next).Changes())
	c.run(everywhere(3, 1, parallel(1)))
	require.Equal(t, "n1:v3 n2:v1+ n3:v1+ n4:v1+", c.picture(), "another version takes its place, and is the one of max_parallel")
}

func TestASystemJobThatNoNodeMayRunHasNothingToWaitFor(t *testing.T) {
	c := newCluster(t, testNode("n1"))
	nowhere := everywhere(1, 1, parallel(1), constraint("${attr.kernel.name}", "=", "plan9"))
	res := c.run(nowhere)
	require.True(t, res.Completed)
	require.False(t, res.Waits())
	require.Equal(t, 1, res.Failed["g"].NodesFiltered, "it tells why")
	require.False(t, c.run(nowhere).Changes())
	c.nodes[0].Attributes["kernel.name"] = "plan9"
	require.Len(t, c.run(nowhere).Place, 1)

	large := everywhere(2, 1, parallel(1), func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB = new(1 << 20) })
	large.ID = new("large")
	res = c.run(large)
	require.True(t, res.Waits(), "for room")
	require.False(t, res.Completed)
}

func TestASysbatchJobRunsItsCountOnEveryNode(t *testing.T) {
	c := newCluster(t, testNode("n1"), testNode("n2"))
	j := testJob(nomad.JobTypeSysbatch, count1(2))
	require.Len(t, c.run(j).Place, 4)
	require.Equal(t, []string{"job.g[0]", "job.g[0]", "job.g[1]", "job.g[1]"}, c.wanted())
	c.end(c.sorted()[0].ID, structs.ClientComplete)
	require.False(t, c.run(j).Changes(), "it is done")
	require.Len(t, c.run(testJob(nomad.JobTypeSysbatch, count1(1), atVersion(2))).Stop, 2)
	require.Len(t, c.run(testJob(nomad.JobTypeSysbatch, count1(0), atVersion(3))).Stop, 1, "one of the two is done")
}
