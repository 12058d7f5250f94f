package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// TestAHundredPreemptThreeHundredOfFiveHundred fills a node with allocations of low priority,
// has others take the place of three each, and follows what happens in the event stream.
func TestAHundredPreemptThreeHundredOfFiveHundred(t *testing.T) {
	w := newWorld(t, "mock")
	const low, high, each = 500, 100, 3
	nodes, _, err := w.Client.Nodes().List(nil)
	require.NoError(t, err)
	node, _, err := w.Client.Nodes().Info(nodes[0].ID, nil)
	require.NoError(t, err)
	total := int(node.NodeResources.Cpu.CpuShares - int64(node.ReservedResources.Cpu.CpuShares))
	share := total / low
	if rest := total - share*low; rest > 0 {
		w.run(t, sized("filler", 100, 1, rest), "running")
	}
	const lowJobs = 10
	for i := range lowJobs {
		_, _, err := w.Client.Jobs().Register(sized(fmt.Sprint("low-", i), 20+i%2, low/lowJobs, share), nil)
		require.NoError(t, err)
	}
	w.awaitRunning(t, "low-", low)
	require.Equal(t, 200, w.do(t, "PUT", schedulerPath, `{"PreemptionConfig":{"BatchSchedulerEnabled":true}}`).status)

	seen := w.follow(t, high*each, "high", high)
	_, _, err = w.Client.Jobs().Register(sized("high", 90, high, share*each), nil)
	require.NoError(t, err)
	w.awaitRunning(t, "high", high)
	w.awaitRunning(t, "low-", low-high*each)

	victims := map[string]*nomad.AllocationListStub{}
	allocs, _, err := w.Client.Allocations().List(nil)
	require.NoError(t, err)
	for _, a := range allocs {
		if a.DesiredStatus == "evict" {
			victims[a.ID] = a
		}
	}
	require.Len(t, victims, high*each, "exactly what was needed has ended")
	endedAt, runsAt := seen()
	for _, a := range allocs {
		if a.JobID != "high" {
			continue
		}
		require.Len(t, a.PreemptedAllocations, each)
		for _, id := range a.PreemptedAllocations {
			v := victims[id]
			require.Equal(t, a.ID, v.PreemptedByAllocation)
			require.Equal(t, "complete", v.ClientStatus)
			require.False(t, a.TaskStates["task"].StartedAt.Before(v.TaskStates["task"].FinishedAt), "%s started before %s had ended", a.ID, id)
			require.NotZero(t, endedAt[id])
			require.LessOrEqual(t, endedAt[id], runsAt[a.ID], "in the event stream")
		}
	}
	// What was preempted comes back when there is room.
	_, _, err = w.Client.Jobs().Deregister("high", false, nil)
	require.NoError(t, err)
	w.awaitRunning(t, "low-", low)
}

// sized is a job of so many small tasks that run until they are stopped.
func sized(id string, priority, count, cpu int) *nomad.Job {
	j := mock(id, nil)
	j.Priority = &priority
	g := j.TaskGroups[0]
	g.Count, g.Tasks[0].Resources = &count, &nomad.Resources{CPU: &cpu, MemoryMB: new(10)}
	return j
}

// awaitRunning waits until exactly so many allocations of jobs whose ID begins so run, and
// none is about to or still ending.
func (w *world) awaitRunning(t testing.TB, prefix string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		jobs, _, err := w.Client.Jobs().PrefixList(prefix)
		require.NoError(t, err)
		running := 0
		for _, j := range jobs {
			for _, g := range j.JobSummary.Summary {
				if g.Starting > 0 {
					return false
				}
				running += g.Running
			}
		}
		return running == n
	}, 3*time.Minute, 20*time.Millisecond)
}

// follow reads the event stream until so many allocations have ended, and so many of a job
// run. The returned function waits for that and returns at which index each first did.
func (w *world) follow(t testing.TB, ends int, job string, run int) func() (ended, runs map[string]uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	all, err := w.Client.EventStream().Stream(ctx, map[nomad.Topic][]string{nomad.TopicAllocation: {"*"}}, 0, &nomad.QueryOptions{})
	require.NoError(t, err)
	ended, runs := map[string]uint64{}, map[string]uint64{}
	done := make(chan error, 1)
	note := func(e nomad.Event) error {
		a, err := e.Allocation()
		switch {
		case err != nil:
			return err
		case a.ClientStatus == "complete" && ended[a.ID] == 0:
			ended[a.ID] = e.Index
		case a.ClientStatus == "running" && a.JobID == job && runs[a.ID] == 0:
			runs[a.ID] = e.Index
		}
		return nil
	}
	go func() {
		var failed error
		for events := range all {
			if failed = events.Err; failed != nil {
				break
			}
			for _, e := range events.Events {
				failed = errors.Join(failed, note(e))
			}
			if failed != nil || len(ended) == ends && len(runs) == run {
				break
			}
		}
		cancel()
		for range all { // until its reader has ended
		}
		done <- failed
	}()
	return func() (map[string]uint64, map[string]uint64) {
		require.NoError(t, <-done)
		return ended, runs
	}
}
