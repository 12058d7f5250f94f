package main

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAnAllocationDoesNotShowThatTheAgentWasAway kills the agent and compares what
// `alloc status` says before and after: a process, a program, and one that has ended.
// Only how long ago the allocation was touched, and what it uses now, may differ.
func TestAnAllocationDoesNotShowThatTheAgentWasAway(t *testing.T) {
	s := newSite(t, "wasi", "raw_exec")
	s.grant(t, `plugin "raw_exec" { grant { process { commands = ["/bin/sh"] } } }`)
	n := s.start(t)
	sleep := fmt.Sprintf("module = %q", s.program(t, "sleep"))
	n.out(t, "job", "run", "-detach", writeJob(t, "program", "service", "wasi", sleep))
	n.out(t, "job", "run", "-detach", writeJob(t, "process", "service", "raw_exec", `command = "/bin/sh"
args = ["-c", "while true; do sleep 1; done"]`))
	n.out(t, "job", "run", "-detach", writeJob(t, "ended", "batch", "raw_exec", `command = "/bin/sh"
args = ["-c", "exit 0"]`))
	ids := map[string]string{"program": "running", "process": "running", "ended": "complete"}
	before := map[string]string{}
	for job, status := range ids {
		ids[job] = n.await(t, job, status).ID
		before[job] = n.out(t, "alloc", "status", ids[job])
		require.Equal(t, 1, strings.Count(before[job], "Task started by client"))
	}
	for range 2 {
		require.Equal(t, -1, n.signal(t, syscall.SIGKILL))
		n = s.start(t)
		for job, id := range ids {
			assert.Equal(t, withoutUsage(before[job]), withoutUsage(n.out(t, "alloc", "status", id)))
		}
	}
}

// usageText is what a task uses, before what it may use, and what aligns it.
var usageText = regexp.MustCompile(`[\d.]+( \w+)?/| {2,}`)

// withoutUsage takes out of a text how much a task uses, too.
func withoutUsage(text string) string { return usageText.ReplaceAllString(withoutAges(text), "") }

// withoutAges takes out of a text how long ago something was.
func withoutAges(text string) string { return agoText.ReplaceAllString(text, "ago") }

// TestD20_AnAgentThatWasAwayStopsNothing: the control plane is in the agent, so that no
// allocation is ever cut off from it, however short its patience is.
func TestD20_AnAgentThatWasAwayStopsNothing(t *testing.T) {
	s := newSite(t, "mock")
	n := s.start(t)
	job := strings.Replace(read(t, writeJob(t, "patient", "service", "mock_driver", `run_for = "1h"`)),
		"    restart {", "    disconnect {\n      stop_on_client_after = \"1ms\"\n    }\n    restart {", 1)
	require.Zero(t, n.runJob(t, write(t, t.TempDir()+"/patient.hcl", job)).code)
	before := n.await(t, "patient", "running")
	require.Equal(t, -1, n.signal(t, syscall.SIGKILL))
	n = s.start(t)
	after := n.await(t, "patient", "running")
	assert.Equal(t, before.ID, after.ID)
	assert.Equal(t, taskEvents(before), taskEvents(after))
}

// TestAnEventThatADriverSendsWhenItRecoversATaskArrives: after the agent was killed, and
// after another version of the driver took the task over.
func TestAnEventThatADriverSendsWhenItRecoversATaskArrives(t *testing.T) {
	s := newSite(t, "mock")
	n := s.start(t)
	n.out(t, "job", "run", "-detach", writeJob(t, "found", "service", "mock_driver", `run_for = "1h"
recover_event = "found again"`))
	alloc := n.await(t, "found", "running").ID
	events := func(want int) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Equal(c, want, strings.Count(n.out(t, "alloc", "status", alloc), "found again"))
		}, testTimeout, tick)
	}
	events(0)
	require.Equal(t, -1, n.signal(t, syscall.SIGKILL))
	n = s.start(t)
	events(1)
	note := []byte{0, 5, 4, 'n', 'o', 't', 'e'} // a section that says nothing: other content, the same plugin
	s.drop(t, "mock.wasm", append(driver(t, "mock"), note...))
	events(2)
}
