package standalone

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// told are all events that are kept from a place on, and the place after them.
func told(t *testing.T, cp *ControlPlane, place uint64) (list []*structs.ChangeEvent, next uint64) {
	t.Helper()
	for cp.EventsFrom(math.MaxUint64) > place {
		b, err := cp.NextEvents(t.Context(), place)
		require.NoError(t, err)
		for _, e := range b.Events {
			require.Equal(t, b.Index, e.Index)
		}
		list = append(list, b.Events...)
		place++
	}
	return list, place
}

// words are what events say, without what is drawn at random.
func words(list []*structs.ChangeEvent) (lines []string) {
	for _, e := range list {
		line := e.Topic + " " + e.Type
		if e.Topic == "Job" {
			line += " " + e.Key
		}
		if e.Deleted {
			line += " deleted"
		}
		lines = append(lines, line)
	}
	return lines
}

func TestEachChangeIsToldOnceWithItsWord(t *testing.T) {
	cp := open(t, "")
	var place uint64
	tells := func(want ...string) {
		t.Helper()
		var list []*structs.ChangeEvent
		list, place = told(t, cp, place)
		require.Equal(t, want, words(list))
	}
	registerNode(t, cp, testNode())
	tells("Node NodeRegistration")
	run(t, cp, testJob("web", "service", func(j *nomad.Job) { j.Update = &nomad.UpdateStrategy{MaxParallel: new(0)} }))
	tells("Job JobRegistered web", "Allocation PlanResult", "Evaluation EvaluationUpdated")
	a := wanted(cp, "web")[0]
	report(t, cp, a, structs.ClientRunning)
	tells("Allocation AllocationUpdated")
	report(t, cp, cp.Allocation(a.ID), structs.ClientRunning)
	tells()

	_, err := cp.StopAllocation(a.ID, false)
	require.NoError(t, err)
	list, next := told(t, cp, place)
	place = next
	require.Equal(t, []string{"Allocation PlanResult", "Allocation PlanResult", "Evaluation EvaluationUpdated"}, words(list),
		"it is replaced in the same step")
	require.Equal(t, []string{"web"}, list[0].FilterKeys)
	require.Equal(t, "default", list[0].Namespace)

	mark(t, cp, structs.NodeIneligible)
	tells("Node NodeEligibility")
	mark(t, cp, structs.NodeEligible)
	tells("Node NodeEligibility")
	drain(t, cp, &structs.Drain{Deadline: time.Hour})
	tells("Node NodeDrain")
	_, err = cp.SetDrain(&structs.DrainRequest{NodeID: testNode().ID, MarkEligible: true})
	require.NoError(t, err)
	tells("Node NodeDrain")
	n := testNode()
	n.Events = []structs.NodeEvent{{Subsystem: "Driver", Message: "it is tired"}}
	registerNode(t, cp, n)
	tells("Node NodeStreamEvent")
	n.Meta = map[string]string{"rack": "1"}
	registerNode(t, cp, n)
	tells("Node NodeRegistration")

	_, err = cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "web"})
	require.NoError(t, err)
	tells("Job JobDeregistered web", "Allocation PlanResult", "Evaluation EvaluationUpdated")
	for _, a := range cp.JobAllocations("default", "web") {
		report(t, cp, a, structs.ClientComplete)
	}
	tells("Allocation AllocationUpdated", "Allocation AllocationUpdated")
	_, err = cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "web", Purge: true})
	require.NoError(t, err)
	tells("Job JobDeregistered web deleted", "Evaluation EvaluationUpdated")
	cp.CollectGarbage()
	tells()

	run(t, cp, testJob("once", "batch"))
	report(t, cp, wanted(cp, "once")[0], structs.ClientComplete)
	list, _ = told(t, cp, place)
	require.Equal(t, []string{
		"Job JobRegistered once", "Allocation PlanResult", "Evaluation EvaluationUpdated",
		"Allocation AllocationUpdated", "Job AllocationUpdated once",
	}, words(list))
	require.Equal(t, statusDead, *list[4].Object.(*nomad.Job).Status)
}

func TestDeploymentsDrainsPoolsAndTokensAreTold(t *testing.T) {
	cp := withNode(t, "")
	_, place := told(t, cp, 0)
	run(t, cp, testJob("web", "service"))
	list, place := told(t, cp, place)
	require.Contains(t, words(list), "Deployment PlanResult")
	a := wanted(cp, "web")[0]
	require.NoError(t, cp.ForNode().UpdateAllocations(t.Context(), a.NodeID, []*structs.AllocationState{{
		ID: a.ID, ClientStatus: structs.ClientRunning, DeploymentStatus: &structs.DeploymentStatus{Healthy: new(true), DeploymentID: a.DeploymentID},
	}}))
	list, place = told(t, cp, place)
	require.Contains(t, words(list), "Deployment DeploymentStatusUpdate", "it has succeeded")
	for _, e := range list {
		if e.Topic == "Deployment" {
			require.Equal(t, []string{"web"}, e.FilterKeys)
		}
	}
	_, err := cp.SetDrain(&structs.DrainRequest{NodeID: testNode().ID, Drain: &structs.Drain{Deadline: time.Hour}})
	require.NoError(t, err)
	list, place = told(t, cp, place)
	require.Contains(t, words(list), "Node NodeDrain")

	require.NoError(t, cp.PutNodePool(nomad.NodePool{Name: "gpu"}))
	require.NoError(t, cp.DeleteNodePool("gpu"))
	token, _, err := cp.CreateACLToken(&structs.ACLToken{Type: structs.ACLManagement}, 0)
	require.NoError(t, err)
	require.NoError(t, cp.DeleteACLToken(token.AccessorID))
	list, _ = told(t, cp, place)
	require.Equal(t, []string{
		"NodePool NodePoolUpserted", "NodePool NodePoolDeleted deleted", "ACLToken ACLTokenUpserted", "ACLToken ACLTokenDeleted deleted",
	}, words(list))
	require.Equal(t, "gpu", list[1].Key)
	require.Equal(t, token.AccessorID, list[3].Key)
}

// Many writers share transactions. Whatever is committed together, each change is told, once,
// and in the order of the indexes.
func TestEventsOfManyWritersAreAllTheChangesInOrder(t *testing.T) {
	const writers, versions = 16, 8
	cp, err := Open(Options{Path: filepath.Join(t.TempDir(), "server.db"), EventBuffer: 10_000})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cp.Close()) })
	registerNode(t, cp, testNode())
	indexes := make([]map[uint64]bool, writers)
	var all sync.WaitGroup
	for w := range writers {
		indexes[w] = map[uint64]bool{}
		all.Go(func() {
			for v := range versions {
				change, err := cp.RegisterJob(&structs.JobRegistration{Job: testJob(fmt.Sprint("job-", w), "batch", user(fmt.Sprint(v)))})
				if err == nil {
					indexes[w][change.JobModifyIndex] = true
				}
			}
		})
	}
	all.Wait()
	list, _ := told(t, cp, 0)
	last := uint64(0)
	for _, e := range list {
		require.GreaterOrEqual(t, e.Index, last)
		last = e.Index
		if e.Topic == "Job" {
			var w int
			_, err := fmt.Sscanf(e.Key, "job-%d", &w)
			require.NoError(t, err)
			require.Equal(t, "JobRegistered", e.Type)
			require.True(t, indexes[w][e.Index], "%s at %d was told twice, or never happened", e.Key, e.Index)
			delete(indexes[w], e.Index)
		}
	}
	for w, left := range indexes {
		require.Empty(t, left, "untold registrations of job-%d", w)
	}
	require.Equal(t, cp.Index(TableJobs), last)
}

func TestTheBufferOfEventsHasItsBound(t *testing.T) {
	cp, err := Open(Options{EventBuffer: 3})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cp.Close()) })
	registerNode(t, cp, testNode()) // place 0
	for i := range 3 {
		run(t, cp, testJob(fmt.Sprint("j", i), "service"))
	}
	_, err = cp.NextEvents(t.Context(), 0)
	require.ErrorIs(t, err, structs.ErrEventsLost)
	require.EqualValues(t, 1, cp.EventsFrom(0), "the oldest that is kept")
	second := *cp.Job("default", "j1").JobModifyIndex
	require.EqualValues(t, 2, cp.EventsFrom(second))
	require.EqualValues(t, 3, cp.EventsFrom(second+1))
	require.EqualValues(t, 4, cp.EventsFrom(math.MaxUint64), "the next that there will be")

	ctx, cancel := context.WithCancel(t.Context())
	next := make(chan *structs.ChangeBatch)
	go func() {
		b, _ := cp.NextEvents(ctx, 4)
		next <- b
	}()
	run(t, cp, testJob("j3", "service"))
	require.Equal(t, *cp.Job("default", "j3").JobModifyIndex, (<-next).Index)
	cancel()
	_, err = cp.NextEvents(ctx, 5)
	require.ErrorIs(t, err, context.Canceled)
}

func TestWhoWaitsForEventsLeavesWithTheControlPlane(t *testing.T) {
	cp, err := Open(Options{})
	require.NoError(t, err)
	ended := make(chan error)
	go func() {
		_, err := cp.NextEvents(context.Background(), 0)
		ended <- err
	}()
	require.NoError(t, cp.Close())
	require.ErrorIs(t, <-ended, errdefs.Unavailable)
}

func TestAChangeThatIsNotStoredIsNotTold(t *testing.T) {
	cp := withNode(t, filepath.Join(t.TempDir(), "server.db"))
	_, place := told(t, cp, 0)
	failing := &failingFile{file: cp.file, n: 1}
	require.NoError(t, cp.write(func(tx *tx) error { tx.cp.file = failing; return nil }))
	_, err := cp.RegisterJob(&structs.JobRegistration{Job: testJob("web", "service")})
	require.Error(t, err)
	list, _ := told(t, cp, place)
	require.Empty(t, list)
}
