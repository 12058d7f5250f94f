package standalone

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// memoryOf is all that a control plane knows, as text.
func memoryOf(t require.TestingT, cp *ControlPlane) string {
	all := map[string]any{"index": last(t, cp)}
	for _, n := range cp.Nodes() {
		all["node "+n.ID] = n
	}
	for _, p := range cp.NodePools() {
		all["pool "+p.Name] = p
	}
	for _, v := range variablesOf(cp) {
		whole, err := cp.Variable(v.Namespace, v.Path)
		require.NoError(t, err)
		all["variable "+v.Path] = whole
	}
	for _, k := range cp.RootKeys() {
		all["root key "+k.KeyID] = k
	}
	for _, token := range cp.ACLTokens() {
		all["token "+token.AccessorID] = token
	}
	for _, a := range cp.Allocations() {
		c := *a
		c.Job = nil // as it was when it was placed, or as it is now: stable, and with a tag
		all["allocation "+a.ID], all["version of "+a.ID] = c, *a.Job.JobModifyIndex
	}
	for _, e := range cp.Evaluations() {
		all["evaluation "+e.ID] = e
	}
	for _, d := range cp.Deployments() {
		all["deployment "+d.ID] = d
	}
	for _, j := range cp.Jobs() {
		all["job "+*j.ID] = j
		all["versions of "+*j.ID], all["summary of "+*j.ID] = cp.JobVersions(*j.Namespace, *j.ID), cp.JobSummary(*j.Namespace, *j.ID)
	}
	text, err := json.MarshalIndent(all, "", " ")
	require.NoError(t, err)
	return string(text)
}

// TestWhatIsOpenedAgainIsWhatWasThere after each kind of change, also what has gone.
func TestWhatIsOpenedAgainIsWhatWasThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.db")
	secret := ""
	for _, step := range []struct {
		name   string
		change func(cp *ControlPlane) error
	}{
		{"a node", func(cp *ControlPlane) error { registerNode(t, cp, testNode()); return nil }},
		{"jobs", func(cp *ControlPlane) error {
			run(t, cp, testJob("web", "service", count(2)))
			run(t, cp, testJob("sum", "batch"))
			run(t, cp, testJob("big", "service", memory(100_000)))
			run(t, cp, rollout("a"))
			return nil
		}},
		{"a version", func(cp *ControlPlane) error { run(t, cp, testJob("sum", "batch", user("u"))); return nil }},
		{"what runs", func(cp *ControlPlane) error {
			for _, a := range cp.Allocations() {
				report(t, cp, a, structs.ClientRunning)
			}
			return nil
		}},
		{"an end", func(cp *ControlPlane) error { report(t, cp, wanted(cp, "sum")[0], structs.ClientComplete); return nil }},
		{"a pool", func(cp *ControlPlane) error { return cp.PutNodePool(nomad.NodePool{Name: "p"}) }},
		{"no pool", func(cp *ControlPlane) error { return cp.DeleteNodePool("p") }},
		{"a token", func(cp *ControlPlane) error {
			_, drawn, err := cp.BootstrapACL("")
			secret = drawn
			return err
		}},
		{"another token", func(cp *ControlPlane) error {
			_, _, err := cp.CreateACLToken(&structs.ACLToken{Name: "n", Type: "management"}, time.Hour)
			return err
		}},
		{"fewer tokens", func(cp *ControlPlane) error {
			for _, token := range cp.ACLTokens() {
				if token.Name == "n" {
					return cp.DeleteACLToken(token.AccessorID)
				}
			}
			return nil
		}},
		{"a purge", func(cp *ControlPlane) error {
			_, err := cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "sum", Purge: true})
			return err
		}},
		{"a stop", func(cp *ControlPlane) error {
			_, err := cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "web"})
			for _, a := range cp.JobAllocations("default", "web") {
				report(t, cp, a, structs.ClientComplete)
			}
			return err
		}},
		{"garbage", func(cp *ControlPlane) error { cp.CollectGarbage(); return nil }},
	} {
		t.Run(step.name, func(t *testing.T) {
			cp := open(t, path)
			before := memoryOf(t, cp)
			require.NoError(t, step.change(cp))
			want := memoryOf(t, cp)
			require.NotEqual(t, before, want)
			require.NoError(t, cp.Close())
			cp = open(t, path)
			require.Equal(t, want, memoryOf(t, cp))
			require.Zero(t, cp.unreadable)
			if secret != "" {
				_, err := cp.ResolveACLToken(secret)
				require.NoError(t, err)
			}
			require.NoError(t, cp.Close())
		})
	}
}
