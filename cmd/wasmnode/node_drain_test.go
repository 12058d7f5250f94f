package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/wake"
)

// self is the node that answers, as the command line prints it.
func (n *node) self(t *testing.T) (self nomad.Node) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(n.out(t, "node", "status", "-self", "-json")), &self))
	return self
}

func TestANodeIsDrainedFollowedAndComesBack(t *testing.T) {
	n := newSite(t, "mock").start(t)
	n.out(t, "job", "run", writeJob(t, "web", "service", "mock_driver", `run_for = "1h"`))
	system := strings.Replace(read(t, writeJob(t, "everywhere", "system", "mock_driver", `run_for = "1h"`)),
		"reschedule {\n      attempts  = 0\n      unlimited = false\n    }", "", 1)
	n.out(t, "job", "run", write(t, filepath.Join(t.TempDir(), "everywhere.nomad.hcl"), system))
	alloc := n.await(t, "web", "running")
	out := n.out(t, "node", "drain", "-enable", "-self", "-m", "new kernel", "-meta", "by=ann")
	assert.Contains(t, out, "Ctrl-C to stop monitoring: will not cancel the node drain")
	assert.Contains(t, out, `drain strategy set`)
	assert.Contains(t, out, `Drain complete for node `+alloc.NodeID)
	assert.Contains(t, out, `All allocations on node "`+alloc.NodeID+`" have stopped`)
	lines := map[string]bool{}
	for line := range strings.Lines(out) {
		_, text, _ := strings.Cut(line, " ")
		assert.False(t, lines[text], "twice: %s", text)
		lines[text] = true
	}
	self := n.self(t)
	assert.Nil(t, self.DrainStrategy)
	assert.Equal(t, nomad.DrainStatusComplete, self.LastDrain.Status)
	assert.Equal(t, map[string]string{"message": "new kernel", "by": "ann"}, self.LastDrain.Meta)
	assert.Equal(t, nomad.NodeSchedulingIneligible, self.SchedulingEligibility)
	assert.Equal(t, "No drain strategy set\n", n.out(t, "node", "drain", "-monitor", "-self"))

	assert.Contains(t, n.out(t, "job", "status", "web"), "\nPlacement Failure\n")
	assert.Regexp(t, `Driver: mock_driver +Healthy\n`, n.out(t, "node", "status", "-self"))

	out = n.out(t, "node", "eligibility", "-enable", alloc.NodeID[:8])
	assert.Equal(t, `Node "`+alloc.NodeID+`" scheduling eligibility set: eligible for scheduling`+"\n", out)
	for _, job := range []string{"web", "everywhere"} {
		require.Eventually(t, func() bool { return len(n.running(t, job)) == 1 }, testTimeout, tick, job)
	}
	assert.NotContains(t, n.out(t, "job", "status", "web"), "Placement Failure", "nothing waits for a place any more")
	n.out(t, "node", "drain", "-enable", "-self", "-force", "-ignore-system")
	assert.Empty(t, n.running(t, "web"))
	assert.Len(t, n.running(t, "everywhere"), 1)
}

// running are a job's allocations that run and are to.
func (n *node) running(t *testing.T, job string) (list []*nomad.AllocationListStub) {
	t.Helper()
	for _, a := range n.allocs(t, job) {
		if a.ClientStatus == "running" && a.DesiredStatus == "run" {
			list = append(list, a)
		}
	}
	return list
}

func TestADrainGoesOnThoughTheAgentIsKilled(t *testing.T) {
	s := newSite(t, "mock")
	n := s.start(t)
	n.out(t, "job", "run", writeJob(t, "once", "batch", "mock_driver", `run_for = "1h"`))
	n.await(t, "once", "running")
	said := n.out(t, "node", "drain", "-enable", "-self", "-no-deadline", "-detach")
	assert.Regexp(t, `^Node "[-0-9a-f]{36}" drain strategy set\n$`, said)
	n.signal(t, syscall.SIGKILL)

	n = s.start(t)
	assert.Contains(t, n.out(t, "node", "status", "-self"), "true; no deadline")
	assert.Len(t, n.running(t, "once"), 1, "a batch job may go on")
	monitor := n.command("node", "drain", "-monitor", "-self")
	out := &transcript{grown: wake.New()}
	monitor.Stdout = out
	require.NoError(t, monitor.Start())
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "Monitoring node") }, testTimeout, tick)
	n.out(t, "job", "stop", "-detach", "once")
	require.NoError(t, monitor.Wait())
	assert.Contains(t, out.String(), "Drain complete")
	assert.Equal(t, nomad.DrainStatusComplete, n.self(t).LastDrain.Status)
}

func TestFlagsOfADrainThatContradict(t *testing.T) {
	for flags, want := range map[string]string{
		"":                            "either -enable or -disable",
		"-enable -disable":            "either -enable or -disable",
		"-enable -monitor":            "goes with neither",
		"-enable -force -no-deadline": "one of them",
		"-enable -deadline 1h -force": "one of them",
		"-disable -force":             "do not go with -disable",
		"-disable -ignore-system":     "do not go with -disable",
		"-enable -keep-ineligible":    "goes with -disable",
		"-enable -deadline -1h":       "not above 0",
		"-enable -deadline soon":      "invalid duration",
		"-enable -meta x":             "KEY=VALUE",
		"-enable":                     "which node?",
		"-enable -self x":             "name two nodes",
	} {
		var complaints bytes.Buffer
		c := &nodeDrainCommand{meta{ui: ui{out: &bytes.Buffer{}, err: &complaints}}}
		assert.Equal(t, 1, c.Run(strings.Fields(flags)), flags)
		assert.Contains(t, complaints.String(), want, flags)
	}
}

func TestAQuestionIsAnswered(t *testing.T) {
	for answer, yes := range map[string]bool{"y\n": true, "YES\n": true, "n\n": false, "\n": false, "": false, "yet\n": false, "y": true} {
		var out bytes.Buffer
		err := meta{ui: ui{out: &out, err: &out}}.confirmFrom(strings.NewReader(answer), "Sure?")
		assert.Equal(t, yes, err == nil, "%q", answer)
		assert.Equal(t, "Sure? [y/N]\n", out.String())
	}
}
