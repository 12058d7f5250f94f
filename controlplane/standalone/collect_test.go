package standalone

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/structs"
)

// endedJob runs a job to its end.
func endedJob(t *testing.T, cp *ControlPlane, id, kind string) (alloc string) {
	run(t, cp, testJob(id, kind))
	a := wanted(cp, id)[0]
	if kind == nomad.JobTypeService {
		_, err := cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: id})
		require.NoError(t, err)
	}
	report(t, cp, a, structs.ClientComplete)
	return a.ID
}

func TestWhatHasEndedIsForgottenAtItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "server.db")
		s := open(t, path)
		registerNode(t, s, testNode())
		for i := range 300 {
			endedJob(t, s, fmt.Sprint("b", i), "batch")
		}
		web := run(t, s, testJob("web", "service", user("a")))
		first := wanted(s, "web")[0]
		run(t, s, testJob("web", "service", user("b")))
		report(t, s, first, structs.ClientComplete)
		newest := wanted(s, "web")[0]

		batch := run(t, s, testJob("again", "batch", user("a")))
		replaced := wanted(s, "again")[0]
		run(t, s, testJob("again", "batch", user("b")))
		report(t, s, replaced, structs.ClientComplete)

		sleep(time.Hour - time.Second)
		require.NotNil(t, s.Evaluation(web.ID))
		require.NotNil(t, s.Allocation(first.ID))
		sleep(5*time.Minute + 2*time.Second)
		require.Nil(t, s.Evaluation(web.ID), "the one before has the older version's")
		require.Nil(t, s.Allocation(first.ID))
		require.NotNil(t, s.Evaluation(newest.EvalID), "what placed it is kept with it")
		require.NotNil(t, s.Evaluation(batch.ID), "a batch job's is kept for a day")
		require.NotNil(t, s.Allocation(replaced.ID))
		require.Len(t, s.Jobs(), 302, "no job is forgotten because there are others")

		// An agent that was away for a while, or starts again and again, forgets nothing else.
		require.NoError(t, s.Close())
		time.Sleep(2 * time.Hour)
		s = open(t, path)
		sleep(50 * time.Minute)
		require.Len(t, s.Jobs(), 302)
		sleep(15 * time.Minute)
		require.Len(t, s.Jobs(), 2)
		sleep(21 * time.Hour)
		require.Nil(t, s.Evaluation(batch.ID))
		require.Nil(t, s.Allocation(replaced.ID))
		require.NotNil(t, s.Allocation(newest.ID))
		require.Len(t, s.data.specs, 4, "both versions of each job")
	})
}

func TestADownNodeIsForgottenADayLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "server.db")
		s := open(t, path)
		registerNode(t, s, testNode())
		run(t, s, testJob("web", "service"))
		other := testNode()
		other.ID = "22222222-2222-2222-2222-222222222222"
		registerNode(t, s, other)
		require.Equal(t, structs.NodeDown, s.Node(testNode().ID).Status)
		sleep(23 * time.Hour)
		require.NotNil(t, s.Node(testNode().ID))
		sleep(2 * time.Hour)
		require.Nil(t, s.Node(testNode().ID))
		require.NoError(t, s.Close())
		s = open(t, path)
		require.Len(t, s.Nodes(), 1)
	})
}

func TestCollectingGarbageForgetsAllThatHasEnded(t *testing.T) {
	s := withNode(t, "")
	run(t, s, testJob("stays", "service"))
	endedJob(t, s, "b", "batch")
	endedJob(t, s, "s", "service")
	s.CollectGarbage()
	require.Len(t, s.Jobs(), 1)
	require.Len(t, wanted(s, "stays"), 1)
	require.Len(t, s.Allocations(), 1)
	require.Len(t, s.Evaluations(), 1)
	require.Len(t, s.data.specs, 1)
}

// TestTheFileStaysWithinItsBound dispatches for a while what is kept for hours.
func TestTheFileStaysWithinItsBound(t *testing.T) {
	t.Setenv(boltfile.StrictEnv, "0") // which reads all of the file after each write
	const bound = 2 << 20
	limits := DefaultLimits()
	limits.Size = bound
	path := filepath.Join(t.TempDir(), "server.db")
	s, err := Open(Options{Path: path, Limits: limits})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	registerNode(t, s, testNode())
	run(t, s, testJob("stays", "service"))
	registered(t, s, testJob("many", "batch", func(j *nomad.Job) { j.ParameterizedJob = &nomad.ParameterizedJobConfig{} }))
	most, last := int64(0), ""
	for range 600 {
		made, err := s.DispatchJob(&structs.JobDispatch{Namespace: "default", JobID: "many", Payload: make([]byte, 1000)})
		require.NoError(t, err)
		last = made.JobID
		report(t, s, wanted(s, last)[0], structs.ClientComplete)
		most = max(most, s.file.InUse())
	}
	require.Less(t, most, int64(bound+bound/2))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(3*bound))
	require.Len(t, wanted(s, "stays"), 1)
	require.NotNil(t, s.Job("default", last), "the newest are kept")
	require.Equal(t, int64(600), s.JobSummary("default", "many").Children.Dead)
}
