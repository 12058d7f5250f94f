package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestRunningAJobLeavesItsOutputAndItsExitCode(t *testing.T) {
	s := newSite(t, "wasi")
	n := s.start(t)
	file := writeJob(t, "hello", "batch", "wasi", fmt.Sprintf("module = %q\nargs = [%q, %q]", s.program(t, "print"), "-n", "3"))
	out := n.out(t, "job", "run", file)
	assert.Contains(t, out, `finished with status "complete"`)

	alloc := n.await(t, "hello", "complete")
	assert.Equal(t, "line 1\nline 2\nline 3\n", n.out(t, "alloc", "logs", alloc.ID))
	assert.Equal(t, "line 3\n", n.out(t, "alloc", "logs", "-tail", "-n", "1", alloc.ID[:8], "task"))
	assert.Empty(t, n.out(t, "alloc", "logs", "-stderr", alloc.ID))
	assert.Equal(t, "line 1\nline 2\nline 3\n", n.out(t, "alloc", "logs", "-f", "-job", "-group", "group", "-task", "task", "hello"), "it ends with the task")
	const log = "alloc/logs/task.stdout.0"
	assert.Equal(t, "line 3\n", n.out(t, "alloc", "fs", "-tail", "-n", "1", alloc.ID, log))
	assert.Equal(t, " 3\n", n.out(t, "alloc", "fs", "-tail", "-c", "3", "-job", "hello", log))
	assert.Regexp(t, `-rw-r--r-- +21 +\S+ +task\.stdout\.0\n`, n.out(t, "alloc", "fs", "-stat", "-H", alloc.ID, log))
	wants(t, n.run(t, "alloc", "fs", "-group", "group", alloc.ID), 1, `-group is of a job: say -job, too`)
	wants(t, n.run(t, "alloc", "fs", "-job", "-group", "other", "hello"), 1, `job "hello" has no allocations of group "other"`)
	assert.Regexp(t, `\ntask +dead +Terminated +\S+ +main\n`, n.out(t, "alloc", "status", "-short", alloc.ID))
	assert.Contains(t, n.out(t, "alloc", "status", alloc.ID), "Exit Code: 0")
	status := n.out(t, "job", "status", "-evals", "hello")
	assert.Regexp(t, `\n[0-9a-f]{8} +50 +job-register +complete +false\n`, status)
	assert.Contains(t, status, alloc.ID[:8])
	assert.NotContains(t, n.out(t, "job", "status", "-short", "hello"), "Summary")
	eval := n.out(t, "eval", "status", alloc.EvalID)
	assert.Regexp(t, `(?s)Placement Failures += false\n.*Plan Annotations\n.*\ngroup +0 +1 .*Placed Allocations\n.*`+alloc.ID[:8], eval)
	assert.Contains(t, n.out(t, "eval", "status", "-monitor", alloc.EvalID), `finished with status "complete"`)
	n.out(t, "job", "eval", "-detach", "hello")
	assert.Contains(t, n.out(t, "eval", "list", "-per-page", "1", "-filter", `JobID != "it's"`), `run:

wasmnode eval list -filter='JobID != "it'\''s"' -per-page=1 -page-token=`)
	assert.Equal(t, "No deployments found\n", n.out(t, "deployment", "status"))
	assert.Contains(t, n.out(t, "job", "status", "hello"), "dead")
}

// TestTheEventsOfAKilledTaskAreCompleteAndInOrder holds the events of a task that is killed, the newest
// first, in Nomad's words.
func TestTheEventsOfAKilledTaskAreCompleteAndInOrder(t *testing.T) {
	n := newSite(t, "mock").start(t)
	n.out(t, "job", "run", writeJob(t, "forever", "service", "mock_driver", `run_for = "1h"`))
	alloc := n.await(t, "forever", "running")
	assert.Contains(t, n.out(t, "job", "stop", "forever"), `finished with status "complete"`)
	n.await(t, "forever", "complete")
	assert.Contains(t, n.out(t, "job", "status", "forever"), "dead (stopped)")
	golden(t, "killed.golden", withoutTimes(n.out(t, "alloc", "status", alloc.ID)))

	n.out(t, "job", "stop", "-purge", "-detach", "forever")
	r := n.run(t, "job", "status", "forever")
	assert.Equal(t, result{1, "", "Error: no job begins with \"forever\": wasmnode job status lists them\n"}, r)
}

func TestAStopWithoutShutdownDelayEndsATaskAtOnce(t *testing.T) {
	n := newSite(t, "mock").start(t)
	n.out(t, "job", "run", write(t, filepath.Join(t.TempDir(), "slow.nomad.hcl"), `job "slow" {
  group "group" {
    update { min_healthy_time = "0s" }
    shutdown_delay = "24h"
    task "task" {
      driver         = "mock_driver"
      shutdown_delay = "24h"
      config {
        run_for = "24h"
      }
    }
  }
}
`))
	first := n.await(t, "slow", "running")
	statuses := func() map[bool][]string { // of the first allocation, and of the others
		found := map[bool][]string{}
		for _, a := range n.allocs(t, "slow") {
			found[a.ID == first.ID] = append(found[a.ID == first.ID], a.ClientStatus)
		}
		return found
	}
	await := func(want map[bool][]string) {
		t.Helper()
		require.Eventually(t, func() bool { return reflect.DeepEqual(want, statuses()) }, testTimeout, tick, "waiting for %v", want)
	}
	n.out(t, "alloc", "stop", "-detach", "-no-shutdown-delay", first.ID)
	await(map[bool][]string{true: {"complete"}, false: {"running"}})
	n.out(t, "job", "stop", "-detach", "slow")
	n.out(t, "job", "stop", "-detach", "-no-shutdown-delay", "slow")
	await(map[bool][]string{true: {"complete"}, false: {"complete"}})
}

// TestAnAgentThatComesBackKeepsWhatItHad ends an agent in every way and starts it
// again: jobs, allocations and tasks are there, and nothing happened to them. Only when
// the supervisor is killed, too, a task is started anew, and says why.
func TestAnAgentThatComesBackKeepsWhatItHad(t *testing.T) {
	for _, c := range []struct {
		name       string
		signal     os.Signal
		code       int
		supervisor bool // dies as well
	}{
		{"SIGTERM", syscall.SIGTERM, 0, false},
		{"SIGINT", os.Interrupt, 0, false},
		{"kill -9", syscall.SIGKILL, -1, false},
		{"kill -9 of everything", syscall.SIGKILL, -1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "wasi", "mock")
			n := s.start(t)
			n.out(t, "job", "run", writeJob(t, "program", "service", "wasi", fmt.Sprintf("module = %q", s.program(t, "sleep"))))
			n.out(t, "job", "run", writeJob(t, "mock", "service", "mock_driver", `run_for = "1h"`))
			n.out(t, "job", "run", writeJob(t, "done", "batch", "mock_driver", `run_for = "1ms"`))
			program, mock, done := n.await(t, "program", "running"), n.await(t, "mock", "running"), n.await(t, "done", "complete")
			id := n.out(t, "node", "status", "-json")
			require.Equal(t, c.code, n.signal(t, c.signal), n.log)
			if c.supervisor {
				s.killSupervisor(t)
			}

			n = s.start(t)
			assert.Equal(t, nodeID(t, id), nodeID(t, n.out(t, "node", "status", "-json")), "it is the same node")
			if c.supervisor {
				again := n.awaitAlloc(t, "program", func(a *nomad.AllocationListStub) bool {
					started := 0
					for _, e := range a.TaskStates["task"].Events {
						if e.Type == "Started" {
							started++
						}
					}
					return started == 2 && a.TaskStates["task"].State == "running"
				})
				assert.Equal(t, program.ID, again.ID, "the allocation is kept")
				golden(t, "came-back.golden", withoutTimes(taskEvents(again)))
			}
			for job, before := range map[string]*nomad.AllocationListStub{"program": program, "mock": mock, "done": done} {
				after := n.await(t, job, before.ClientStatus)
				assert.Equal(t, before.ID, after.ID)
				if job != "program" || !c.supervisor {
					assert.Equal(t, taskEvents(before), taskEvents(after), "nothing happened to %s", job)
				}
			}

			n.out(t, "job", "stop", "program")
			n.await(t, "program", "complete")
			require.Zero(t, n.signal(t, syscall.SIGTERM), n.log)
			assert.NotContains(t, n.log.String(), "[ERROR]")
		})
	}
}

func TestADirectoryOrPortInUseIsReportedAtTheStart(t *testing.T) {
	s := newSite(t)
	n := s.start(t)
	other := newSite(t)

	r := command(t, "", "agent", "-config", other.config, "-http-addr", n.address)
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.stderr, fmt.Sprintf("\nError: http: listen tcp4 %s: bind: address already in use: choose another address with -http-addr, -bind, bind_addr or addresses.http, which may be several with spaces between\n", n.address), "after a warning")

	r = command(t, "", "agent", "-config", s.config, "-http-addr", "127.0.0.1:0")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.stderr, fmt.Sprintf("\nError: node state %s: another agent is using it: waited 5s for its lock; stop the other agent, or give this one its own data directory\n", filepath.Join(s.data, "client.db")))
	assert.NotEmpty(t, n.out(t, "node", "status"), "the agent that was there first goes on")
}

func TestADevelopmentAgentLeavesNothingBehind(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	n := startAgent(t, binary, "-dev")
	entries, err := filepath.Glob(filepath.Join(tmp, "wasmnode-dev-*"))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	plugins := filepath.Join(entries[0], "plugins")
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "mock.wasm"), driver(t, "mock"), 0o600))
	n.awaitDriver(t, "mock_driver", true)
	n.out(t, "job", "run", writeJob(t, "forever", "service", "mock_driver", `run_for = "1h"`))
	n.await(t, "forever", "running")

	require.Zero(t, n.signal(t, syscall.SIGTERM), n.log)
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	assert.Empty(t, left)
	_, err = net.Dial("tcp", n.address)
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// writeJob writes the file of a job with one task, "task", and returns its path.
func writeJob(t *testing.T, id, kind, driver, config string) string {
	t.Helper()
	update := ""
	if kind == "service" {
		update = healthyAtOnce
	}
	return write(t, filepath.Join(t.TempDir(), id+".nomad.hcl"), fmt.Sprintf(`job %q {
  type = %q
  group "group" {
    %s
    restart {
      delay = "10ms"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    ephemeral_disk {
      size = 10
    }
    task "task" {
      driver = %q
      config {
        %s
      }
      resources {
        cpu    = 10
        memory = 32
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
    }
  }
}
`, id, kind, update, driver, config))
}

// healthyAtOnce is of a service that is not to be waited for longer than it takes to start.
const healthyAtOnce = `update { min_healthy_time = "0s" }`

// await waits until a job has one allocation and that has a client status.
func (n *node) await(t *testing.T, job, status string) *nomad.AllocationListStub {
	t.Helper()
	return n.awaitAlloc(t, job, func(a *nomad.AllocationListStub) bool { return a.ClientStatus == status })
}

// awaitAlloc waits until a job has one allocation and that is as wanted.
func (n *node) awaitAlloc(t *testing.T, job string, wanted func(*nomad.AllocationListStub) bool) *nomad.AllocationListStub {
	t.Helper()
	var allocs []*nomad.AllocationListStub
	require.Eventually(t, func() bool {
		allocs = n.allocs(t, job)
		return len(allocs) == 1 && wanted(allocs[0])
	}, testTimeout, tick, "waiting for job %s", job)
	return allocs[0]
}

// allocs are a job's allocations.
func (n *node) allocs(t *testing.T, job string) (list []*nomad.AllocationListStub) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(n.out(t, "job", "allocs", "-json", job)), &list))
	return list
}

func nodeID(t *testing.T, text string) string {
	t.Helper()
	var nodes []nomad.NodeListStub
	require.NoError(t, json.Unmarshal([]byte(text), &nodes))
	require.Len(t, nodes, 1)
	return nodes[0].ID
}

var jitter = regexp.MustCompile(`restarting in [^\n]*`)

// taskEvents are a task's events, the oldest first.
func taskEvents(alloc *nomad.AllocationListStub) string {
	var b strings.Builder
	task := alloc.TaskStates["task"]
	if task == nil {
		return "nothing"
	}
	for _, e := range task.Events {
		fmt.Fprintf(&b, "%s: %s\n", e.Type, e.DisplayMessage)
	}
	return jitter.ReplaceAllString(b.String(), "restarting in <delay>")
}

var (
	timeText = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	idText   = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})?\b`)
	agoText  = regexp.MustCompile(`(\d+[hms])+ ago`)
	hostText = regexp.MustCompile(`(Node Name\s+= ).*`)
)

// withoutTimes takes out of a text what differs from run to run, and keeps its columns.
func withoutTimes(s string) string {
	for _, r := range []struct {
		pattern *regexp.Regexp
		with    string
	}{
		{timeText, time.RFC3339[:19] + "Z"}, {idText, "<id>"}, {agoText, "0s ago"}, {hostText, "${1}<host>"},
	} {
		s = r.pattern.ReplaceAllString(s, r.with)
	}
	return s
}

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}
