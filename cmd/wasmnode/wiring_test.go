package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/managers/catalog"
)

// The tests of this file show of the whole product what the packages' own tests show of
// their part: that what they have is put to use.

// TestD6_AnAgentGoesOnFingerprintingAfterAnError breaks a plugin's fingerprint and mends it.
func TestD6_AnAgentGoesOnFingerprintingAfterAnError(t *testing.T) {
	s, dir := newFaultySite(t)
	n := s.start(t)
	n.awaitPlugin(t, "faulty", catalog.StateHealthy)
	fault := write(t, filepath.Join(dir, "fingerprint"), "error")
	n.awaitPlugin(t, "faulty", catalog.StateUnhealthy)
	require.NoError(t, os.Remove(fault))
	n.awaitPlugin(t, "faulty", catalog.StateHealthy)
}

// TestD14_AReplacementWaitsForWhatItReplacesThoughTheAgentIsKilled replaces a task that
// takes its time to end, and kills the agent while the replacement waits. The wait is on a
// listener of the replaced allocation's, whose end is the listener's end (D16).
func TestD14_AReplacementWaitsForWhatItReplacesThoughTheAgentIsKilled(t *testing.T) {
	s := newSite(t, "raw_exec")
	s.grant(t, `plugin "raw_exec" { grant { process { commands = ["*"] } } }`)
	n := s.start(t)
	end := filepath.Join(t.TempDir(), "end")
	version := func(v int) string {
		script := fmt.Sprintf(`trap "" TERM INT; while [ ! -e %s ]; do sleep 0.1; done; exit %d`, end, v)
		return write(t, filepath.Join(t.TempDir(), "slow.nomad.hcl"), fmt.Sprintf(`job "slow" {
  group "g" {
    task "t" {
      driver       = "raw_exec"
      kill_timeout = "30s"
      config {
        command = "/bin/sh"
        args    = ["-c", %q]
      }
    }
  }
}
`, script))
	}
	n.out(t, "job", "run", "-detach", version(1))
	first := n.await(t, "slow", "running")
	n.out(t, "job", "run", "-detach", version(2))
	second := func() *nomad.AllocationListStub {
		for _, a := range n.allocs(t, "slow") {
			if a.ID != first.ID && a.TaskStates["t"] != nil {
				return a
			}
		}
		return nil
	}
	waits := func() bool {
		a := second()
		return a != nil && a.ClientStatus == "pending" && a.TaskStates["t"].StartedAt.IsZero()
	}
	require.Eventually(t, waits, testTimeout, tick)
	require.Contains(t, n.out(t, "alloc", "status", second().ID), "Waiting for previous allocation "+first.ID+" to end")

	require.Equal(t, -1, n.signal(t, syscall.SIGKILL))
	n = s.start(t)
	require.True(t, waits(), "the next agent knows that it waits")
	write(t, end, "")
	require.Eventually(t, func() bool { return !second().TaskStates["t"].StartedAt.IsZero() }, testTimeout, tick)
	for _, a := range n.allocs(t, "slow") {
		if a.ID == first.ID {
			ended := a.TaskStates["t"].FinishedAt
			assert.False(t, ended.IsZero())
			assert.False(t, second().TaskStates["t"].StartedAt.Before(ended), "one never runs beside the other")
		}
	}
}

// TestLogsThatAreSwitchedOffAreNotWritten: nothing that the task says is on the disk.
func TestLogsThatAreSwitchedOffAreNotWritten(t *testing.T) {
	n := startRawExec(t)
	const task = "driver = \"raw_exec\"\n"
	text := read(t, watchedJob(t, "silent", healthyAtOnce, "echo told; touch $NOMAD_TASK_DIR/told; exec sleep 1000"))
	n.out(t, "job", "run", write(t, filepath.Join(t.TempDir(), "silent.nomad.hcl"), replaceOnce(t, text, task, task+"logs { disabled = true }\n")))
	alloc := n.await(t, "silent", "running").ID
	require.Eventually(t, func() bool {
		return n.run(t, "alloc", "fs", alloc, "t/local/told").code == 0
	}, testTimeout, tick)
	assert.NotContains(t, n.out(t, "alloc", "fs", alloc, "alloc/logs"), "t.stdout")
}

// replaceOnce replaces a text that is there once.
func replaceOnce(t *testing.T, text, old, by string) string {
	t.Helper()
	require.Equal(t, 1, strings.Count(text, old), "%q in\n%s", old, text)
	return strings.Replace(text, old, by, 1)
}
