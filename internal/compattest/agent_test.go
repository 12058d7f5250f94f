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
	"syscall"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent"
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
	// token is what is asked with.
	token string
}

func ours(t *testing.T) *target {
	t.Helper()
	a := agenttest.Start(t, agenttest.Options{Drivers: []string{"raw_exec", "mock"}, CodeCache: codeCache})
	return &target{name: "wasmnode", url: a.URL, client: a.Client, scratch: t.TempDir()}
}

// ours is the agent that a table's commands are run on.
func (tab *table) ours(t *testing.T) *target {
	t.Helper()
	if !tab.acls {
		return ours(t)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "node.hcl")
	require.NoError(t, os.WriteFile(config, []byte(withACLs), 0o600))
	to := &target{name: "wasmnode", scratch: t.TempDir(), url: "http://" + agenttest.Run(t, agent.Options{
		ConfigPaths: []string{config}, DataDir: filepath.Join(dir, "data"), PluginDir: dir,
		HTTPAddr: "127.0.0.1:0", LogLevel: "error", LogOutput: t.Output(),
	})}
	to.connect(t)
	return to
}

// theirs is what ours is held against.
func (tab *table) theirs(t *testing.T, binary string) *target {
	t.Helper()
	if tab.acls {
		return theirs(t, binary, withACLs)
	}
	return theirs(t, binary, "")
}

const withACLs = "acl {\n  enabled = true\n}\n"

// unmount unmounts what Nomad's agent has left in a directory.
func unmount(t *testing.T, dir string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/mounts")
	require.NoError(t, err)
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[1]; strings.HasPrefix(at, dir+"/") {
			_ = syscall.Unmount(at, syscall.MNT_DETACH)
		}
	}
}

func (to *target) connect(t *testing.T) {
	t.Helper()
	var err error
	to.client, err = nomad.NewClient(&nomad.Config{Address: to.url})
	require.NoError(t, err)
	t.Cleanup(to.client.Close)
}

// afterwards asks with the token that a command has made, if it was the first.
func (to *target) afterwards(c *command) {
	if strings.HasPrefix(c.line, "acl bootstrap {dir}/") && to.token == "" {
		to.token = firstToken
		to.client.SetSecretID(firstToken)
	}
}

// firstToken is in testdata/cli/bootstrap.token.
const firstToken = "b0075747-4e0c-4a57-9c1e-5f6d2c6b1a01"

// theirs starts an agent of the stock nomad, with more of a configuration, which ends with
// the test.
func theirs(t *testing.T, binary, more string) *target {
	t.Helper()
	dir := shortDir(t)
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
		unmount(t, dir)
	})
	to := &target{name: "nomad", scratch: t.TempDir(), url: fmt.Sprintf("http://127.0.0.1:%d", ports[0])}
	to.connect(t)
	require.Eventually(t, func() bool {
		if more == withACLs { // who asks is told nothing
			health, err := to.client.Agent().Health()
			return err == nil && health.Server.Ok && health.Client.Ok
		}
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

var placeholder = regexp.MustCompile(`\{([a-z]+)(?: ([a-z]+))?\}`)

// kinds are what there are placeholders for.
var kinds = []string{"node", "alloc", "eval", "deployment", "volume", "claim", "policy", "service", "key", "token", "role", "rule"}

// noID stands for what there is none of.
const noID = "00000000-0000-0000-0000-000000000000"

// fill replaces the placeholders of a line by IDs.
func (to *target) fill(line string) string {
	return placeholder.ReplaceAllStringFunc(line, func(p string) string {
		m := placeholder.FindStringSubmatch(p)
		switch {
		case !slices.Contains(kinds, m[1]):
			return p
		case to.id(m[1], m[2]) != "":
			return to.id(m[1], m[2])
		}
		return noID
	})
}

// id is that of the node, or of a job's newest allocation, evaluation or deployment; of an
// allocation that runs, if there is one. Of other things it is the newest of a name.
func (to *target) id(kind, of string) string {
	switch kind {
	case "node":
		if nodes, _, err := to.client.Nodes().List(nil); err == nil && len(nodes) > 0 {
			return nodes[0].ID
		}
	case "eval":
		evals, _, _ := to.client.Evaluations().List(&nomad.QueryOptions{Filter: fmt.Sprintf("JobID == %q", of)})
		evals = slices.DeleteFunc(evals, func(e *nomad.Evaluation) bool { return e.TriggeredBy != "job-register" })
		return newest(evals, func(e *nomad.Evaluation) (string, uint64) { return e.ID, e.CreateIndex })
	case "deployment":
		if d, _, err := to.client.Jobs().LatestDeployment(of, nil); err == nil && d != nil {
			return d.ID
		}
	case "alloc":
		allocs, _, _ := to.client.Jobs().Allocations(of, false, nil)
		running := slices.DeleteFunc(slices.Clone(allocs), func(a *nomad.AllocationListStub) bool {
			return a.ClientStatus != "running" || a.DesiredStatus != "run"
		})
		if len(running) > 0 {
			allocs = running
		}
		return newest(allocs, func(a *nomad.AllocationListStub) (string, uint64) { return a.ID, a.CreateIndex })
	}
	return to.other(kind, of)
}

func (to *target) other(kind, name string) string {
	switch kind {
	case "volume":
		volumes, _, _ := to.client.HostVolumes().List(nil, nil)
		return newest(volumes, func(v *nomad.HostVolumeStub) (string, uint64) { return v.ID, v.CreateIndex })
	case "claim":
		claims, _, _ := to.client.TaskGroupHostVolumeClaims().List(nil, nil)
		return newest(claims, func(c *nomad.TaskGroupHostVolumeClaim) (string, uint64) { return c.ID, c.CreateIndex })
	case "policy":
		policies, _, _ := to.client.Scaling().ListPolicies(nil)
		return newest(policies, func(p *nomad.ScalingPolicyListStub) (string, uint64) { return p.ID, p.CreateIndex })
	case "service":
		services, _, _ := to.client.Services().Get(name+"-shop", nil)
		return newest(services, func(s *nomad.ServiceRegistration) (string, uint64) { return s.ID, s.CreateIndex })
	case "key":
		keys, _, _ := to.client.Keyring().List(nil)
		keys = slices.DeleteFunc(keys, func(k *nomad.RootKeyMeta) bool { return k.State == nomad.RootKeyStateActive })
		return newest(keys, func(k *nomad.RootKeyMeta) (string, uint64) { return k.KeyID, k.CreateIndex })
	case "token":
		tokens, _, _ := to.client.ACLTokens().List(nil)
		tokens = slices.DeleteFunc(tokens, func(a *nomad.ACLTokenListStub) bool { return name != "" && a.Name != name })
		return newest(tokens, func(a *nomad.ACLTokenListStub) (string, uint64) { return a.AccessorID, a.CreateIndex })
	case "role":
		roles, _, _ := to.client.ACLRoles().List(nil)
		return newest(roles, func(r *nomad.ACLRoleListStub) (string, uint64) { return r.ID, r.CreateIndex })
	case "rule":
		rules, _, _ := to.client.ACLBindingRules().List(nil)
		return newest(rules, func(r *nomad.ACLBindingRuleListStub) (string, uint64) { return r.ID, r.CreateIndex })
	}
	return ""
}

// newest is the ID of what was made last.
func newest[T any](list []T, of func(T) (id string, index uint64)) (newest string) {
	last := uint64(0)
	for _, one := range list {
		if id, index := of(one); index >= last {
			newest, last = id, index
		}
	}
	return newest
}
