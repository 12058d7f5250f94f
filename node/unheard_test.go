package node

import (
	"context"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/watcher"
	"github.com/wasmnode/wasmnode/structs"
)

// otherNodes are some of which nothing is asked.
type otherNodes struct{ watcher.Elsewhere }

// mutePlane says what is to run once it is let.
type mutePlane struct {
	ControlPlane
	let chan struct{}
}

func (p *mutePlane) Allocations(ctx context.Context, nodeID string, minIndex uint64) (*structs.Assignments, error) {
	select {
	case <-p.let:
		return p.ControlPlane.Allocations(ctx, nodeID, minIndex)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// While the machine was down, servers may have placed elsewhere what ran on it.
func TestWhatDidNotSurviveWaitsUntilServersWereHeard(t *testing.T) {
	w := newWorld(t)
	w.other = otherNodes{}
	w.start()
	ids := map[string]string{}
	for job, kind := range map[string]string{"kept": "service", "moved": "service", "everywhere": "system"} {
		w.run(job, kind)
	}
	for _, job := range []string{"kept", "moved", "everywhere"} {
		ids[job] = w.awaitStatus(job, structs.ClientRunning).ID
	}
	w.end()
	w.machine = newMachine() // it was restarted, and nothing runs
	w.drivers = w.machine.dispense
	_, err := w.embedded.DeregisterJob(&structs.JobStop{Namespace: nomad.DefaultNamespace, JobID: "moved"})
	require.NoError(t, err)

	// An agent that ends while it waits leaves the wait to the next.
	for range 2 {
		plane := &mutePlane{w.embedded.ForNode(), make(chan struct{})}
		w.plane = plane
		w.launch()
		for _, job := range []string{"kept", "moved"} {
			w.await(job+" waits", func() bool {
				r, err := w.node.runner(ids[job])
				if err != nil {
					return false
				}
				s := r.AllocState().TaskStates["t"]
				last := s.Events[len(s.Events)-1].DisplayMessage
				return s.State == structs.TaskPending && strings.Contains(last, "Task did not survive the restart of the agent, and does not start again before servers were heard")
			})
		}
		w.became(ids["everywhere"], structs.ClientRunning)
		require.Zero(t, w.machine.started(ids["kept"]))
		require.Zero(t, w.machine.started(ids["moved"]))
		w.end()
	}
	plane := &mutePlane{w.embedded.ForNode(), make(chan struct{})}
	w.plane = plane
	w.launch()
	close(plane.let)
	w.awaitStatus("kept", structs.ClientRunning)
	w.await("the end of what was moved", func() bool {
		a := w.embedded.Allocation(ids["moved"])
		return a != nil && a.ClientStatus.Terminal()
	})
	require.Equal(t, 1, w.machine.started(ids["kept"]))
	require.Zero(t, w.machine.started(ids["moved"]), "it is not to run here any more")
	var waited int
	for _, e := range w.embedded.Allocation(ids["kept"]).TaskStates["t"].Events {
		if e.Type == structs.EventFailedRestoring && strings.Contains(e.DisplayMessage, "does not start again before") {
			waited++
		}
	}
	require.Equal(t, 1, waited)
}
