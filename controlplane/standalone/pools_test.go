package standalone

import (
	"path/filepath"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

func inPool(name string) func(*nomad.Job) { return func(j *nomad.Job) { j.NodePool = &name } }

func TestNodePoolsAreKeptAndRemovedWhenNothingUsesThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	cp := withNode(t, path)
	require.NoError(t, cp.PutNodePool(nomad.NodePool{Name: "gpu", Description: "graphics", Meta: map[string]string{"a": "b"}}))
	first := cp.NodePool("gpu")
	require.NoError(t, cp.PutNodePool(nomad.NodePool{Name: "gpu", Description: "more graphics"}))
	require.Equal(t, first.CreateIndex, cp.NodePool("gpu").CreateIndex)
	require.Greater(t, cp.NodePool("gpu").ModifyIndex, first.ModifyIndex)
	run(t, cp, testJob("web", "service", inPool("gpu")))
	require.NoError(t, cp.Close())

	cp = open(t, path)
	require.Len(t, cp.NodePools(), 3)
	require.Equal(t, "more graphics", cp.NodePool("gpu").Description)
	require.ErrorIs(t, cp.DeleteNodePool("gpu"), errdefs.FailedPrecondition)
	_, err := cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "web", Purge: true})
	require.NoError(t, err)
	require.NoError(t, cp.DeleteNodePool("gpu"))
	require.ErrorIs(t, cp.DeleteNodePool("gpu"), errdefs.NotFound)
	require.ErrorIs(t, cp.DeleteNodePool("default"), errdefs.InvalidArgument)
	require.NoError(t, cp.Close())
	require.Nil(t, open(t, path).NodePool("gpu"))
}

func TestAPoolThatIsNotThere(t *testing.T) {
	cp := withNode(t, "")
	_, err := cp.RegisterJob(&structs.JobRegistration{Job: testJob("web", "service", inPool("gpu"))})
	require.ErrorIs(t, err, errdefs.InvalidArgument)
	require.EqualError(t, err, `job "web" is in nonexistent node pool "gpu"`)
	faults, _ := cp.ValidateJob(testJob("web", "service", inPool("gpu")))
	require.Equal(t, []string{err.Error()}, faults)
	n := testNode()
	n.Pool = "gpu"
	registerNode(t, cp, n)
	require.NotNil(t, cp.NodePool("gpu"), "a node brings its pool along")
	run(t, cp, testJob("web", "service", inPool("gpu")))
	run(t, cp, testJob("any", "service", inPool("all")))
	require.Len(t, wanted(cp, "web"), 1)
	require.Len(t, wanted(cp, "any"), 1)
	require.ErrorIs(t, cp.DeleteNodePool("gpu"), errdefs.FailedPrecondition)
}

func TestWhatANodePoolCannotBe(t *testing.T) {
	cp := open(t, "")
	long, meta := strings.Repeat("x", maxPoolDescription), map[string]string{}
	for i := range maxPoolMeta {
		meta[strings.Repeat("m", i+1)] = ""
	}
	require.NoError(t, cp.PutNodePool(nomad.NodePool{Name: strings.Repeat("n", 128), Description: long, Meta: meta}))
	meta["one more"] = ""
	for _, p := range []nomad.NodePool{
		{}, {Name: "all"}, {Name: "default"}, {Name: "a b"}, {Name: strings.Repeat("n", 129)},
		{Name: "n", Description: long + "x"}, {Name: "n", Meta: meta}, {Name: "n", NodeIdentityTTL: 1},
		{Name: "n", SchedulerConfiguration: &nomad.NodePoolSchedulerConfiguration{}},
	} {
		require.ErrorIs(t, cp.PutNodePool(p), errdefs.InvalidArgument, "%+v", p)
	}
}

func TestOnlyANodeThatIsDownIsPurged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	cp := withNode(t, path)
	run(t, cp, testJob("web", "service"))
	_, err := cp.PurgeNode(testNode().ID)
	require.ErrorIs(t, err, errdefs.FailedPrecondition)
	_, err = cp.PurgeNode("nobody")
	require.ErrorIs(t, err, errdefs.NotFound)
	n := testNode()
	n.ID = "22222222-2222-2222-2222-222222222222"
	registerNode(t, cp, n) // of the same name: the other is down
	out, err := cp.PurgeNode(testNode().ID)
	require.NoError(t, err)
	require.NotZero(t, out.NodeModifyIndex)
	require.Nil(t, cp.Node(testNode().ID))
	require.NoError(t, cp.Close())
	cp = open(t, path)
	require.Len(t, cp.Nodes(), 1)
	require.Len(t, wanted(cp, "web"), 1)
	require.Equal(t, n.ID, wanted(cp, "web")[0].NodeID)
}

func TestTheJobsOfANodeAreEvaluated(t *testing.T) {
	cp := withNode(t, "")
	run(t, cp, testJob("web", "service"))
	run(t, cp, testJob("everywhere", "system"))
	run(t, cp, testJob("big", "service", memory(5000)))
	out, err := cp.EvaluateNode(testNode().ID)
	require.NoError(t, err)
	jobs := map[string]bool{}
	for _, id := range out.EvalIDs {
		e := cp.Evaluation(id)
		require.Equal(t, triggerNode, e.TriggeredBy)
		jobs[e.JobID] = true
	}
	require.Equal(t, map[string]bool{"web": true, "everywhere": true}, jobs)
	require.Len(t, out.EvalIDs, 2)
	_, err = cp.EvaluateNode("nobody")
	require.ErrorIs(t, err, errdefs.NotFound)
}
