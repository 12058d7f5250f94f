package compattest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/agenttest"
	"github.com/wasmnode/wasmnode/internal/codetest"
)

// patience is how long anything that is waited for may take.
const patience = 30 * time.Second

var codeCache string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "compat-test-")
	if err != nil {
		panic(err)
	}
	codeCache = dir
	codetest.Restore(dir)
	code := m.Run()
	codetest.Save(dir)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// stock is the binary of the stock nomad; without it the test is skipped.
func stock(t *testing.T) string {
	t.Helper()
	path := os.Getenv("NOMAD_BIN")
	if path == "" {
		t.Skip("NOMAD_BIN does not name a stock nomad")
	}
	return path
}

// target is an agent that is asked, ours or Nomad's.
type target struct {
	name   string
	url    string
	client *nomad.Client
	// scratch is where commands run.
	scratch string
}

func ours(t *testing.T) *target {
	t.Helper()
	a := agenttest.Start(t, agenttest.Options{Drivers: []string{"raw_exec", "mock"}, CodeCache: codeCache})
	return &target{"wasmnode", a.URL, a.Client, t.TempDir()}
}

// theirs starts an agent of the stock nomad, with more of a configuration, which ends with
// the test.
func theirs(t *testing.T, binary, more string) *target {
	t.Helper()
	dir := t.TempDir()
	ports := make([]int, 3)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ports[i] = l.Addr().(*net.TCPAddr).Port
		require.NoError(t, l.Close())
	}
	config := filepath.Join(dir, "nomad.hcl")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
data_dir = %q
ports {
  http = %d
  rpc  = %d
  serf = %d
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}
%s
`, filepath.Join(dir, "data"), ports[0], ports[1], ports[2], more), 0o600))
	cmd := exec.Command(binary, "agent", "-dev", "-config", config)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "AWS_") || strings.HasPrefix(v, "NOMAD_") // it would not start with some of them
	})
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	to := &target{name: "nomad", scratch: t.TempDir(), url: fmt.Sprintf("http://127.0.0.1:%d", ports[0])}
	var err error
	to.client, err = nomad.NewClient(&nomad.Config{Address: to.url})
	require.NoError(t, err)
	t.Cleanup(to.client.Close)
	require.Eventually(t, func() bool {
		nodes, _, err := to.client.Nodes().List(nil)
		return err == nil && len(nodes) == 1 && nodes[0].Status == "ready"
	}, patience, 50*time.Millisecond)
	return to
}

// await waits for what a command that began at a time says has to be after it, and returns
// why it is not.
func (to *target) await(ctx context.Context, w wait, began time.Time) error {
	last := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && ctx.Err() == nil; {
		is, state := to.is(w, began)
		if is {
			return nil
		}
		last = state
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("%s: waiting for %+v: %s", to.name, w, last)
}

func (to *target) is(w wait, began time.Time) (bool, string) {
	if w.what != "wait" {
		// A deployment is made by the evaluation: until that is over, the latest is the one before.
		evals, _, err := to.client.Jobs().Evaluations(w.job, nil)
		if err != nil || slices.ContainsFunc(evals, func(e *nomad.Evaluation) bool { return e.Status == "pending" }) {
			return false, "an evaluation is pending"
		}
		d, _, err := to.client.Jobs().LatestDeployment(w.job, nil)
		switch {
		case err != nil:
			return false, err.Error()
		case d == nil:
			return false, "no deployment"
		case w.what == "settled":
			return !slices.Contains([]string{"running", "pending", "paused", "blocked"}, d.Status), d.Status
		}
		for _, g := range d.TaskGroups {
			if g.DesiredCanaries > 0 && g.HealthyAllocs >= g.DesiredCanaries && !g.Promoted {
				return true, ""
			}
		}
		return false, d.Status + ": " + d.StatusDescription
	}
	allocs, _, err := to.client.Jobs().Allocations(w.job, false, nil)
	if err != nil {
		return false, err.Error()
	}
	var states []string
	for _, a := range allocs {
		switch is := a.ClientStatus == w.status; {
		case w.status == "running" && is && a.DesiredStatus == "run" && to.alive(a.ID, time.Time{}),
			w.status == "restarted" && a.DesiredStatus == "run" && to.alive(a.ID, began),
			w.status != "running" && is:
			return true, ""
		}
		states = append(states, a.DesiredStatus+"/"+a.ClientStatus)
	}
	return false, strings.Join(states, " ")
}

// alive reports whether an allocation's tasks run that were started after a time.
func (to *target) alive(id string, since time.Time) bool {
	a, _, err := to.client.Allocations().Info(id, nil)
	if err != nil {
		return false
	}
	for _, s := range a.TaskStates {
		if s.State != "running" || s.StartedAt.Before(since) {
			return false
		}
	}
	return len(a.TaskStates) > 0
}

var placeholder = regexp.MustCompile(`\{(node|alloc|eval|deployment)(?: ([a-z]+))?\}`)

// noID stands for what there is none of.
const noID = "00000000-0000-0000-0000-000000000000"

// fill replaces the placeholders of a line by IDs.
func (to *target) fill(line string) string {
	return placeholder.ReplaceAllStringFunc(line, func(p string) string {
		m := placeholder.FindStringSubmatch(p)
		if id := to.id(m[1], m[2]); id != "" {
			return id
		}
		return noID
	})
}

// id is that of the node, or of a job's newest allocation, evaluation or deployment; of an
// allocation that runs, if there is one.
func (to *target) id(kind, job string) (id string) {
	switch kind {
	case "node":
		if nodes, _, err := to.client.Nodes().List(nil); err == nil && len(nodes) > 0 {
			id = nodes[0].ID
		}
	case "eval":
		evals, _, _ := to.client.Evaluations().List(&nomad.QueryOptions{Filter: fmt.Sprintf("JobID == %q", job)})
		index := uint64(0)
		for _, e := range evals {
			if e.TriggeredBy == "job-register" && e.CreateIndex >= index {
				id, index = e.ID, e.CreateIndex
			}
		}
	case "deployment":
		if d, _, err := to.client.Jobs().LatestDeployment(job, nil); err == nil && d != nil {
			id = d.ID
		}
	case "alloc":
		allocs, _, _ := to.client.Jobs().Allocations(job, false, nil)
		slices.SortFunc(allocs, func(a, b *nomad.AllocationListStub) int { return int(b.CreateIndex) - int(a.CreateIndex) })
		for _, a := range allocs {
			if id == "" || a.ClientStatus == "running" && a.DesiredStatus == "run" {
				id = a.ID
			}
			if a.ClientStatus == "running" && a.DesiredStatus == "run" {
				break
			}
		}
	}
	return id
}
