package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// writeService writes a service of three whose tasks run for a time, which tells its
// versions apart.
func writeService(t *testing.T, update, runFor string) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "web.nomad.hcl"), fmt.Sprintf(`job "web" {
  group "g" {
    count = 3
    restart {
      attempts = 0
      mode     = "fail"
    }
    update {
      %s
    }
    task "t" {
      driver = "mock_driver"
      config {
        %s
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
`, update, runFor))
}

// deployment is the latest of the job.
func (n *node) deployment(t *testing.T, job string) (d nomad.Deployment) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(n.out(t, "job", "deployments", "-latest", "-json", job)), &d))
	return d
}

// awaitDeployment waits until the job's latest deployment is as is to be.
func (n *node) awaitDeployment(t *testing.T, job string, is func(nomad.Deployment) bool) (d nomad.Deployment) {
	t.Helper()
	require.Eventually(t, func() bool { d = n.deployment(t, job); return is(d) }, testTimeout, tick, "%+v", &d)
	return d
}

// live counts a job's live allocations by version.
func (n *node) live(t *testing.T, job string) map[uint64]int {
	t.Helper()
	live := map[uint64]int{}
	for _, a := range n.allocs(t, job) {
		if a.DesiredStatus == "run" && a.ClientStatus != "failed" {
			live[a.JobVersion]++
		}
	}
	return live
}

const quick = `min_healthy_time = "0s"`

func TestCanariesArePromotedByCommand(t *testing.T) {
	n := newSite(t, "mock").start(t)
	r := n.run(t, "job", "promote", "web")
	require.Equal(t, result{1, "", "Error: no job begins with \"web\": wasmnode job status lists them\n"}, r)
	n.out(t, "job", "run", writeService(t, quick, `run_for = "1h"`))
	first := n.deployment(t, "web")
	assert.Regexp(t, fmt.Sprintf(`^ID        Job ID  Job Version  Status      Description
%s  web     0            successful  Deployment completed successfully
$`, first.ID[:8]), n.out(t, "deployment", "list"))
	n.out(t, "job", "run", "-detach", writeService(t, quick+"\ncanary = 1", `run_for = "2h"`))
	d := n.awaitDeployment(t, "web", func(d nomad.Deployment) bool { return d.TaskGroups["g"].HealthyAllocs == 1 })
	assert.Equal(t, map[uint64]int{0: 3, 1: 1}, n.live(t, "web"))
	const shown = `Status      = running
Description = Deployment is running but requires manual promotion

Deployed
Task Group  Promoted  Desired  Canaries  Placed  Healthy  Unhealthy  Progress Deadline
g           false     3        1         1       1        0          \S+
`
	assert.Regexp(t, "^ID          = "+d.ID[:8]+"\nJob ID      = web\nJob Version = 1\n"+shown+"$", n.out(t, "deployment", "status", d.ID[:8]))
	assert.Regexp(t, "\n\nLatest Deployment\nID          = "+d.ID[:8]+"\n"+shown+"\nAllocations\n", n.out(t, "job", "status", "web"))
	assert.Regexp(t, `\nDatacenters += \*\nNamespace += default\nNode Pool += default\nStatus `, n.out(t, "job", "status", "web"))
	canary := d.TaskGroups["g"].PlacedCanaries[0]
	assert.Regexp(t, `\nDeployment ID += `+d.ID[:8]+`\nDeployment Health += healthy\nCanary += true\n`, n.out(t, "alloc", "status", canary))
	r = n.run(t, "deployment", "promote", "-group", "other", d.ID)
	assert.Equal(t, result{1, "", "Error: no canaries to promote\n"}, r)

	assert.Equal(t, fmt.Sprintf("Deployment %q paused\n", d.ID), n.out(t, "deployment", "pause", d.ID[:8]))
	assert.Contains(t, n.out(t, "deployment", "status", d.ID), "Deployment is paused")
	assert.Regexp(t, `^Deployment ".*" resumed\nEvaluation ID: `, n.out(t, "deployment", "resume", "-detach", d.ID))
	out := n.out(t, "job", "promote", "-group", "g", "web")
	assert.Regexp(t, fmt.Sprintf(`^Deployment %q promoted\n==> .*: Monitoring evaluation (?s:.*) Monitoring deployment %q(?s:.*)==> .*: Job "web" is healthy\n$`, d.ID, d.ID[:8]), out)
	assert.Equal(t, map[uint64]int{1: 3}, n.live(t, "web"))
	assert.Equal(t, 3, strings.Count(n.out(t, "job", "deployments", "web"), "\n"), "a heading and both")
	r = n.run(t, "deployment", "unblock", d.ID)
	assert.Equal(t, result{1, "", "Error: can't unblock terminal deployment\n"}, r)
}

func TestAnUpdateThatFailsIsFollowedBackToWhatWorked(t *testing.T) {
	n := newSite(t, "mock").start(t)
	n.out(t, "job", "run", writeService(t, quick, `run_for = "1h"`))
	const careful = "min_healthy_time = \"1s\"\nprogress_deadline = \"0s\"\nauto_revert = true"
	r := n.run(t, "job", "run", writeService(t, careful, "run_for = \"1ms\"\nexit_code = 3"))
	assert.Equal(t, 1, r.code)
	assert.Regexp(t, `Failed due to unhealthy allocations - rolling back to job version 0(?s:.*)Monitoring deployment(?s:.*)Job "web" is healthy\n$`, r.stdout)
	assert.Regexp(t, `^Error: deployment "\w{8}" is failed: .* rolling back to job version 0: allocation "\w{8}" is failed: task "t": Terminated: Exit Code: 3`, r.stderr)
	assert.Equal(t, map[uint64]int{2: 3}, n.live(t, "web"))

	n.out(t, "job", "run", "-detach", writeService(t, "health_check = \"manual\"\nauto_revert = true", `run_for = "2h"`))
	d := n.deployment(t, "web")
	assert.Regexp(t, fmt.Sprintf(`^Deployment %q failed. Auto-reverted to job version 2.\n(?s:.*)Job "web" is healthy\n$`, d.ID), n.out(t, "deployment", "fail", d.ID))
	r = n.run(t, "deployment", "status", "-monitor", d.ID)
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.stderr, "Deployment marked as failed - rolling back to job version 2")
}

// TestAKilledAgentGoesOnWithItsDeployment kills the agent whenever another allocation of an
// update is healthy.
func TestAKilledAgentGoesOnWithItsDeployment(t *testing.T) {
	s := newSite(t, "mock")
	n := s.start(t)
	n.out(t, "job", "run", writeService(t, quick, `run_for = "1h"`))
	n.out(t, "job", "run", "-detach", writeService(t, `min_healthy_time = "2s"`, `run_for = "2h"`))
	id := n.deployment(t, "web").ID
	for healthy := range 3 {
		n.awaitDeployment(t, "web", func(d nomad.Deployment) bool { return d.TaskGroups["g"].HealthyAllocs >= healthy })
		require.Equal(t, -1, n.signal(t, syscall.SIGKILL))
		n = s.start(t)
		assert.GreaterOrEqual(t, len(n.running(t, "web")), 2, "at most one is missing")
	}
	d := n.awaitDeployment(t, "web", func(d nomad.Deployment) bool { return d.Status == "successful" })
	assert.Equal(t, id, d.ID)
	assert.Equal(t, []int{3, 3}, []int{d.TaskGroups["g"].PlacedAllocs, d.TaskGroups["g"].HealthyAllocs})
	assert.Equal(t, map[uint64]int{1: 3}, n.live(t, "web"))
}

func TestWhatIsLiveIsDrawnAgainBelowWhatIsWritten(t *testing.T) {
	var out bytes.Buffer
	l := &live{out: &out, width: func() int { return 5 }}
	l.set("one\nlonger than it is wide")
	l.set("one\nlonger than it is wide")
	_, err := l.Write([]byte("a line\n"))
	require.NoError(t, err)
	l.set("two\x1b[2J") // cannot drive the terminal
	require.Equal(t, "one\nlonge\n"+"\x1b[2A\x1b[Ja line\none\nlonge\n"+"\x1b[2A\x1b[Jtwo\\u\n", out.String())
}
