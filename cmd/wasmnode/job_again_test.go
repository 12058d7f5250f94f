package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAStoppedJobIsStartedAgain(t *testing.T) {
	n := newSite(t, "mock").start(t)
	n.out(t, "job", "run", sleepers(t, "again", 1, "x"))
	assert.Contains(t, n.out(t, "job", "start", "again"), "is not stopped")
	n.out(t, "job", "stop", "again")
	n.out(t, "job", "start", "again")
	assert.Regexp(t, `Version +?= 2\n`, n.out(t, "job", "history", "again"))
	assert.Contains(t, n.out(t, "job", "inspect", "-hcl", "again"), `job "again" {`)
	assert.Contains(t, n.out(t, "job", "inspect", "-version", "1", "again"), `"Stop": true`)
}

func TestAJobIsRestartedABatchAfterTheOther(t *testing.T) {
	n := newSite(t, "mock").start(t)
	n.out(t, "job", "run", sleepers(t, "many", 3, "x"))
	n.awaitRunning(t, "many", 3)
	out := n.out(t, "job", "restart", "-batch-size", "67%", "-yes", "many")
	assert.Contains(t, out, "3 allocations restarted")
	n.awaitRunning(t, "many", 3)
	out = n.out(t, "job", "restart", "-reschedule", "-batch-size", "3", "many")
	assert.Contains(t, out, "3 allocations restarted")
	n.awaitRunning(t, "many", 3)
	n.out(t, "job", "restart", "-task", "t", "-group", "g", "-on-error", "fail", "many")
	for line, want := range map[string]string{
		"-all-tasks -task t": `-all-tasks cannot be used with -task`,
		"-batch-size 0":      `-batch-size "0" is neither a number above 0 nor a percentage`,
		"-batch-wait soon":   `-batch-wait "soon" is neither a duration nor ask`,
		"-group h":           `job "many" has no group "h"`,
		"-on-error hope":     `-on-error "hope" is neither ask nor fail`,
	} {
		wants(t, n.run(t, append(append([]string{"job", "restart"}, strings.Fields(line)...), "many")...), 1, want)
	}
	assert.Contains(t, n.out(t, "job", "eval", "-force-reschedule", "many"), `finished with status "complete"`)
}

// awaitRunning waits until so many of a job's allocations run.
func (n *node) awaitRunning(t *testing.T, job string, count int) {
	t.Helper()
	require.Eventually(t, func() bool {
		running := 0
		for _, a := range n.allocs(t, job) {
			if a.DesiredStatus == "run" && a.ClientStatus == "running" {
				running++
			}
		}
		return running == count
	}, testTimeout, tick)
}

func TestAnActionRunsInItsTask(t *testing.T) {
	n := startRawExec(t)
	n.out(t, "job", "run", write(t, filepath.Join(t.TempDir(), "acts.nomad.hcl"), `
job "acts" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }
      action "greet" {
        command = "/bin/sh"
        args    = ["-c", "echo hello from $NOMAD_TASK_NAME; exit 7"]
      }
      resources {
        cpu    = 10
        memory = 32
      }
    }
  }
}
`))
	n.await(t, "acts", "running")
	r := n.run(t, "job", "action", "-job", "acts", "greet")
	require.Equal(t, 7, r.code, r.stderr)
	assert.Equal(t, "hello from t\n", r.stdout)
	wants(t, n.run(t, "job", "action", "-job", "acts", "other"), 1, `job "acts" has no action "other" there`)
}
