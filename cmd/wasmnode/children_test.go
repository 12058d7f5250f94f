package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// batchOf writes a batch job of one shell command, with what its job and its task have besides.
func batchOf(t *testing.T, id, job, task, script string) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), id+".nomad.hcl"), fmt.Sprintf(`job %q {
  type = "batch"
  %s
  group "g" {
    task "t" {
      driver = "raw_exec"
      %s
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
`, id, job, task, script))
}

// TestAPayloadReachesItsTask dispatches a file and what is piped.
func TestAPayloadReachesItsTask(t *testing.T) {
	n := startRawExec(t)
	file := batchOf(t, "encode", "parameterized {\n payload = \"required\"\n meta_required = [\"who\"]\n}",
		"dispatch_payload {\n file = \"in/film.txt\"\n}", "cat local/in/film.txt; echo of $NOMAD_META_who, $NOMAD_JOB_PARENT_ID")
	require.Equal(t, "Job registration successful\n", n.out(t, "job", "run", file))
	out := n.out(t, "job", "dispatch", "-meta", "who=me", "-id-prefix-template", "night", "enc", write(t, filepath.Join(t.TempDir(), "film"), "a film\n"))
	require.Regexp(t, `^Dispatched Job ID = encode/dispatch-night-\d+-[0-9a-f]{8}\nEvaluation ID     = [0-9a-f]{8}\n\n==> `, out)
	child := strings.Fields(out)[4]
	n.await(t, child, "complete")
	require.Equal(t, "a film\nof me, encode\n", n.out(t, "alloc", "logs", "-job", child))

	wants(t, n.run(t, "job", "dispatch", "encode"), 1, "Payload is not provided but required by parameterized job")
	shown := n.out(t, "job", "status", "encode")
	require.Regexp(t, `(?s)Parameterized = true\n\nParameterized Job\nPayload           = required\nRequired Metadata = who\nOptional Metadata = <none>\n
Parameterized Job Summary
Pending  Running  Dead
0        0        1

Dispatched Jobs
ID +Status
`+child+`  dead\n$`, shown)
	once := func() string {
		return n.out(t, "job", "dispatch", "-detach", "-idempotency-token", "x", "-meta", "who=me", "encode", file)
	}
	first := strings.Fields(once())[4]
	require.Equal(t, "Dispatched Job ID = "+first+"\n", once())
}

// TestAPeriodicJobIsShownWithItsChildren forces a launch and reads about it.
func TestAPeriodicJobIsShownWithItsChildren(t *testing.T) {
	n := startRawExec(t)
	file := batchOf(t, "cron", "periodic {\n crons = [\"0 0 1 1 *\"]\n time_zone = \"Europe/Berlin\"\n}", "", "true")
	require.Regexp(t, `^Job registration successful\nApproximate next launch time: \d{4}-01-01T00:00:00\+01:00 \(\d+h\d+m\d+s from now\)\n$`, n.out(t, "job", "run", file))
	require.Contains(t, n.out(t, "job", "status", "cron"), "No instances of periodic job found")
	require.Contains(t, n.out(t, "job", "periodic", "force", "cro"), `finished with status "complete"`)
	require.Regexp(t, `(?s)Next Periodic Launch = \d{4}-01-01T00:00:00\+01:00 \(.* from now\)

Children Job Summary
Pending  Running  Dead
.*
Previously Launched Jobs
ID +Status
cron/periodic-\d+  (running|dead)\n$`, n.out(t, "job", "status", "cron"))
	require.Regexp(t, `cron +batch/periodic +50 +running`, n.out(t, "job", "status"))
	require.Regexp(t, `^Force periodic successful\nEvaluation ID: [0-9a-f-]{36}\n$`, n.out(t, "job", "periodic", "force", "-detach", "cron"))
	require.Empty(t, n.out(t, "job", "stop", "cron"))
	require.Contains(t, n.out(t, "job", "status", "cron"), "Next Periodic Launch = none (job stopped)")
	wants(t, n.run(t, "job", "periodic", "force", "cron"), 1, `can't force run non-tracked job "cron" \(default\)`)
}

// TestLaunchesSurviveKills kills the agent, again and again, while a job is launched every
// second: what was launched has one allocation, and goes on being launched.
func TestLaunchesSurviveKills(t *testing.T) {
	s := newSite(t, "mock")
	n := s.start(t)
	job := strings.Replace(read(t, writeJob(t, "cron", "batch", "mock_driver", `run_for = "1ms"`)),
		"{\n", "{\n  periodic {\n    crons = [\"* * * * * * *\"]\n  }\n", 1)
	n.out(t, "job", "run", write(t, filepath.Join(t.TempDir(), "cron.nomad.hcl"), job))
	launched := func() (ids []string) {
		for line := range strings.Lines(n.out(t, "job", "status", "cron")) {
			if id, _, _ := strings.Cut(line, " "); strings.HasPrefix(id, "cron/periodic-") {
				ids = append(ids, id)
			}
		}
		return ids
	}
	before := 0
	for range 3 {
		require.Eventually(t, func() bool { return len(launched()) > before }, testTimeout, tick)
		kept := launched()
		require.Equal(t, -1, n.signal(t, syscall.SIGKILL))
		n = s.start(t)
		now := launched()
		require.Subset(t, now, kept, "none is forgotten")
		before = len(now)
	}
	for _, id := range launched() {
		require.Len(t, n.allocs(t, id), 1, "none is launched twice")
	}
}
