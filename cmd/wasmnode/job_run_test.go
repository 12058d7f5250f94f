package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// everywhere, in a watched job's group, has it be a system job.
const everywhere = "# everywhere\n"

// watchedJob is a service of one process, with what its group has besides.
func watchedJob(t *testing.T, id, group, script string) string {
	t.Helper()
	kind, rest := "service", "reschedule {\n attempts = 0\n unlimited = false\n}"
	if strings.Contains(group, everywhere) {
		kind, rest = "system", ""
	}
	return write(t, filepath.Join(t.TempDir(), id+".nomad.hcl"), fmt.Sprintf(`job %q {
  type = %q
  group "g" {
    %s
    %s
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", %q]
      }
      resources {
        cpu    = 10
        memory = 64
      }
    }
  }
}
`, id, kind, group, rest, script))
}

// checked is a group whose service has one check, a command in the task.
func checked(update, command string) string {
	return fmt.Sprintf(`update {
      %s
    }
    service {
      name     = "web"
      provider = "nomad"
      check {
        name     = "alive"
        type     = "script"
        task     = "t"
        command  = "/bin/sh"
        args     = ["-c", %q]
        interval = "1s"
        timeout  = "1m"
      }
    }`, update, command)
}

// runJob runs a job. What its registration warns about is not the monitor's.
func (n *node) runJob(t *testing.T, file string) result {
	t.Helper()
	r := n.run(t, "job", "run", file)
	r.stderr = warnings.ReplaceAllString(r.stderr, "")
	return r
}

var warnings = regexp.MustCompile(`(?m)^(Job Warnings:|\d+ warnings?:|\* .*|)\n`)

func startRawExec(t *testing.T) *node {
	t.Helper()
	s := newSite(t, "raw_exec", "mock")
	s.grant(t, `plugin "raw_exec" { grant { process { commands = ["*"] } } }`)
	return s.start(t)
}

// TestRunningAServiceFollowsItToItsHealth: the exit code of job run says whether the
// service works, not whether it was started.
func TestRunningAServiceFollowsItToItsHealth(t *testing.T) {
	n := startRawExec(t)
	const never = "min_healthy_time = \"1s\"\n healthy_deadline = \"11s\""
	restarts := func(mode string) string {
		return "update { healthy_deadline = \"11s\" }\n restart {\n attempts = 1\n interval = \"1h\"\n delay = \"100ms\"\n mode = \"" + mode + "\"\n}"
	}
	for id, c := range map[string]struct {
		group, script  string
		code           int
		stdout, stderr string
	}{
		"runs": {"update { min_healthy_time = \"1s\" }", "exec sleep 1000", 0,
			`Waiting until group "g" is healthy: its tasks are to run for 1s, within 5m0s(?s:.*)Allocation "\w{8}" is healthy\n==> \S+: Job "runs" is healthy\n$`, `^$`},
		"answers": {checked("min_healthy_time = \"1s\"", "true"), "exec sleep 1000", 0,
			`its tasks are to run, and its checks to succeed, for 1s(?s:.*)Job "answers" is healthy`, `^$`},
		"never-answers": {checked(never, "echo no such thing; exit 2"), "exec sleep 1000", 1,
			`Allocation "\w{8}" is unhealthy\n$`,
			`^Error: deployment "\w{8}" is failed: Failed due to unhealthy allocations: allocation "\w{8}" is not healthy: .*check "alive" of service "web": failure \(no such thing\) \(see wasmnode alloc status \w{8}\)\n$`},
		"ends-a-second-later": {restarts("fail"), "sleep 1; exit 3", 1,
			`task "t": Terminated: Exit Code: 3\n(?s:.*)task "t": Restarting: (?s:.*)task "t": Not Restarting: `,
			`^Error: deployment "\w{8}" is failed: Failed due to unhealthy allocations: allocation "\w{8}" is failed: task "t": Terminated: Exit Code: 3 `},
		"ends-again-and-again": {restarts("delay"), "sleep 1; exit 3", 1,
			`task "t": Restarting: `, `^Error: deployment "\w{8}" is failed: Failed due to unhealthy allocations: allocation "\w{8}" is not healthy: task "t": Task not running by deadline `},
		"killed-a-second-later": {restarts("fail"), "sleep 1; kill -9 $$", 1, `Signal: 9`, `^Error: deployment "\w{8}" is failed: Failed due to unhealthy allocations: allocation "\w{8}" is failed: task "t": Terminated: Exit Code: 137, Signal: 9 `},
		"everywhere": {everywhere + "update { min_healthy_time = \"1s\" }", "exec sleep 1000", 0,
			`Waiting until group "g" is healthy: its tasks are to run for 1s, within 5m0s(?s:.*)==> \S+: Job "everywhere" is healthy\n$`, `^$`},
		"ends-everywhere": {everywhere + restarts("fail"), "sleep 1; exit 3", 1, `task "t": Not Restarting: `,
			`^Error: deployment "\w{8}" is failed: Failed due to unhealthy allocations: allocation "\w{8}" is failed: task "t": Terminated: Exit Code: 3 `},
		"nowhere": {everywhere + "constraint {\n attribute = \"${attr.kernel.name}\"\n value = \"plan9\"\n}", "exec sleep 1000", 2,
			`Constraint "\$\{attr.kernel.name\} = plan9": 1 nodes excluded by filter`, `^Error: job "nowhere" is registered, but not all of it could be placed: `},
		"person-decides": {"update { health_check = \"manual\" }", "exec sleep 1000", 0, `is running \(Tasks are running\)\n$`, `^$`},
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			r := n.runJob(t, watchedJob(t, id, c.group, c.script))
			assert.Equal(t, c.code, r.code)
			assert.Regexp(t, c.stdout, r.stdout)
			assert.Regexp(t, c.stderr, r.stderr)
			for _, line := range strings.Split(strings.TrimSpace(r.stdout), "\n") {
				assert.Equal(t, 1, strings.Count(r.stdout, line+"\n"), "a line is there once")
			}
			if r.code == 1 {
				allocs := n.allocs(t, id)
				first := slices.MinFunc(allocs, func(a, b *nomad.AllocationListStub) int { return cmp.Compare(a.CreateIndex, b.CreateIndex) })
				assert.Contains(t, n.out(t, "alloc", "status", first.ID), "Alloc Unhealthy", "the event stays")
			}
		})
	}
}

func TestRunningABatchJobIsDoneWhenItIsPlaced(t *testing.T) {
	n := newSite(t, "mock").start(t)
	out := n.out(t, "job", "run", writeJob(t, "long", "batch", "mock_driver", `run_for = "1h"`))
	assert.NotContains(t, out, "healthy")
	assert.Contains(t, out, "is running")
}

// TestAChangeInPlaceIsFollowedToItsHealth changes a check of a service that was healthy.
func TestAChangeInPlaceIsFollowedToItsHealth(t *testing.T) {
	n := startRawExec(t)
	const update = `min_healthy_time = "0s"`
	require.Zero(t, n.runJob(t, watchedJob(t, "web", checked(update, "true"), "exec sleep 1000")).code)
	before := n.await(t, "web", "running")
	r := n.runJob(t, watchedJob(t, "web", checked(update+"\n healthy_deadline = \"4s\"", "false"), "exec sleep 1000"))
	assert.Equal(t, 1, r.code, r.stdout)
	assert.Contains(t, r.stderr, "is not healthy")
	require.Zero(t, n.runJob(t, watchedJob(t, "web", checked(update, "exit 0"), "exec sleep 1000")).code)
	after := n.await(t, "web", "running")
	require.Equal(t, before.ID, after.ID, "the task went on")
	require.Equal(t, before.TaskStates["t"].StartedAt, after.TaskStates["t"].StartedAt)
}

func TestTheChecksOfAnAllocationAreShown(t *testing.T) {
	n := startRawExec(t)
	require.Zero(t, n.runJob(t, watchedJob(t, "web", checked("min_healthy_time = \"0s\"", "echo fine"), "exec sleep 1000")).code)
	alloc := n.await(t, "web", "running").ID
	assert.Regexp(t, `^ID += \w{8}
Name += alive
Group += web\.g\[0\]
Task += t
Service += web
Status += success
Mode += healthiness
Timestamp += \S+
Output += fine
$`, n.out(t, "alloc", "checks", alloc[:8]))
	assert.Regexp(t, `\nNomad Service Checks:\nService +Task +Name +Mode +Status\n\S+ +\S+ +.* +healthiness +success\n`, n.out(t, "alloc", "status", alloc[:8]))
	n.out(t, "job", "run", writeJob(t, "none", "service", "mock_driver", `run_for = "1h"`))
	assert.Regexp(t, `^Allocation "\w{8}" has no checks\. Its services have none\.\n$`, n.out(t, "alloc", "checks", n.await(t, "none", "running").ID))
}

func TestCollectingGarbageSaysWhatWasForgotten(t *testing.T) {
	n := newSite(t, "mock").start(t)
	n.out(t, "job", "run", writeJob(t, "done", "batch", "mock_driver", `run_for = "1ms"`))
	n.await(t, "done", "complete")
	assert.Equal(t, "Garbage collected: 1 job, 1 allocation and 1 evaluation forgotten\n", n.out(t, "system", "gc"))
	assert.Equal(t, "Garbage collected: 0 jobs, 0 allocations and 0 evaluations forgotten\n", n.out(t, "system", "gc"))
}

// TestD13_ADriverThatHangsAtStopAndDestroyIsNotWaitedFor is the bound of a kill in the
// product: a plugin whose instance loops for ever in both calls.
func TestD13_ADriverThatHangsAtStopAndDestroyIsNotWaitedFor(t *testing.T) {
	n := newSite(t, "mock").start(t)
	text := read(t, writeJob(t, "hangs", "service", "mock_driver", "run_for = \"1h\"\nstop_fault = \"loop\"\ndestroy_fault = \"loop\""))
	text = strings.Replace(text, `driver = "mock_driver"`, "driver = \"mock_driver\"\n kill_timeout = \"1s\"", 1)
	n.out(t, "job", "run", write(t, filepath.Join(t.TempDir(), "hangs.nomad.hcl"), text))
	n.await(t, "hangs", "running")
	n.out(t, "job", "stop", "-detach", "hangs")
	alloc := n.await(t, "hangs", "complete")
	at := map[string]time.Time{}
	for _, e := range alloc.TaskStates["task"].Events {
		at[e.Type] = time.Unix(0, e.Time)
	}
	// The rest is this machine's, which may do much else; without the bound it is more than
	// half a minute.
	require.Less(t, at[killedEvent].Sub(at[killingEvent]), time.Second+killGrace+15*time.Second)
	require.Regexp(t, regexp.MustCompile("Killed +.*destroyed by force; the driver does not return from destroying it"), n.out(t, "alloc", "status", alloc.ID))
}

const (
	killingEvent, killedEvent = nomad.TaskKilling, nomad.TaskKilled
	// killGrace is what a kill takes on top of its timeout at most.
	killGrace = 5 * time.Second
)
