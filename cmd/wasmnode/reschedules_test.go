package main

import (
	"path/filepath"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// TestReschedulesAreShown has a task fail, be replaced five seconds later, and fail again.
func TestReschedulesAreShown(t *testing.T) {
	n := startRawExec(t)
	n.out(t, "job", "run", "-detach", write(t, filepath.Join(t.TempDir(), "f.nomad.hcl"), `job "f" {
  type = "batch"
  group "g" {
    reschedule {
      attempts       = 1
      interval       = "1h"
      delay          = "5s"
      delay_function = "constant"
      unlimited      = false
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/false"
      }
      resources {
        cpu    = 10
        memory = 64
      }
    }
  }
}
`))
	first := n.await(t, "f", "failed")
	require.Regexp(t, `Future Rescheduling Attempts\nTask Group  Eval ID   Eval Time\ng           [0-9a-f]{8}  \ds from now\n`, n.out(t, "job", "status", "f"))
	require.Regexp(t, `Reschedule Eligibility = \ds from now\n`, n.out(t, "alloc", "status", first.ID))
	var second *nomad.AllocationListStub
	require.Eventually(t, func() bool {
		for _, a := range n.allocs(t, "f") {
			if a.ID != first.ID && a.ClientStatus == "failed" {
				second = a
			}
		}
		return second != nil
	}, testTimeout, tick)
	require.Len(t, second.RescheduleTracker.Events, 1)
	require.Equal(t, first.ID, second.RescheduleTracker.Events[0].PrevAllocID)
	require.Equal(t, first.NodeID, second.RescheduleTracker.Events[0].PrevNodeID)
	shown := n.out(t, "alloc", "status", second.ID)
	require.Regexp(t, `Reschedule Attempts += 1/1\n`, shown)
	require.NotContains(t, shown, "Reschedule Eligibility")
	require.Regexp(t, `Replacement Alloc ID += `+second.ID[:8], n.out(t, "alloc", "status", first.ID))
	require.NotContains(t, n.out(t, "job", "status", "f"), "Future Rescheduling Attempts")
}
