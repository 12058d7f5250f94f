package clustertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/recorded"
)

const (
	// recordEnv has the recordings made anew: "make recordings".
	recordEnv = "WASMNODE_RECORD"
	// recordings is where they are, by the servers' version.
	recordings = "../../controlplane/cluster/testdata/recorded"
)

// TestTheWireIsThatOfNomadsOwnClient has Nomad's own client of a server do what it is asked to, and then
// a node of ours, and compares what both have said field by field.
func TestTheWireIsThatOfNomadsOwnClient(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run Nomad's own client")
	}
	for _, binary := range binaries(t) {
		t.Run(filepath.Base(binary), func(t *testing.T) {
			v := versionOf(t, binary).Segments()
			dir := filepath.Join(recordings, fmt.Sprintf("%d.%d", v[0], v[1]))
			file := filepath.Join(dir, "nomad.jsonl")
			theirs := overheard(t, binary, "theirs", func(rpc string) { startTheirs(t, binary, rpc, "127.0.0.1:1") }) // nobody is there: the server is asked
			if os.Getenv(recordEnv) != "" {
				host, err := os.Hostname()
				require.NoError(t, err)
				require.NoError(t, os.MkdirAll(dir, 0o755))
				require.NoError(t, recorded.Write(file, recorded.Scrub(theirs, host)))
			}
			ours := overheard(t, binary, "ours", func(rpc string) { nodeSpec{name: "ours", servers: []string{rpc}}.start(t) })
			var known recorded.Differences
			for _, file := range []string{filepath.Join(recordings, "differences.json"), "testdata/differences.json"} {
				more, err := recorded.ReadDifferences(file)
				require.NoError(t, err)
				known = append(known, more...)
			}
			var unknown []string
			for _, d := range recorded.CompareAll(theirs, ours) {
				if !known.Has(d) {
					unknown = append(unknown, d.String())
				}
			}
			require.Empty(t, unknown, "what no line of differences.json explains")
		})
	}
}

// overheard is what a client of a server and the server have said to each other, without what was said
// alike twice.
func overheard(t *testing.T, binary, name string, start func(rpc string)) []recorded.Exchange {
	t.Helper()
	p := startProxy(t)
	p.tap = &recorded.Tap{}
	s := startServers(t, binary, 1, "", p)[0]
	start(p.address())
	id := s.ready(t, name)
	s.lives(t)
	s.asks(t, id)
	for _, job := range []string{"recorded", "ends", "fails"} {
		_, _, err := s.client.Jobs().Deregister(job, false, nil)
		require.NoError(t, err)
	}
	s.allocs(t, "recorded", "complete")
	eventually(t, "no service", func() (bool, string) {
		found, _, err := s.client.Services().Get("web", nil)
		return err == nil && len(found) == 0, fmt.Sprint(len(found), err)
	})
	if s.atLeast(t, "1.11.0") {
		eventually(t, "a heartbeat that asks for another token", func() (bool, string) {
			list, err := p.tap.Exchanges()
			return slices.ContainsFunc(list, func(x recorded.Exchange) bool {
				args, _ := x.Args.(map[string]any)
				return args["ForceIdentityRenewal"] == true
			}), fmt.Sprint(err)
		})
	}
	list, err := p.tap.Exchanges()
	require.NoError(t, err)
	return recorded.Distinct(list)
}

// lives has jobs run, one of them with whatever makes a node ask servers.
func (s *server) lives(t *testing.T) {
	t.Helper()
	_, _, err := s.client.Variables().Create(&nomad.Variable{Path: "nomad/jobs/recorded", Items: nomad.VariableItems{"k": "value"}}, nil)
	require.NoError(t, err)
	j := job("recorded", "service", `trap '' HUP; echo hello; exec sleep 10000`)
	g, task := j.TaskGroups[0], j.TaskGroups[0].Tasks[0]
	g.Networks = []*nomad.NetworkResource{{DynamicPorts: []nomad.Port{{Label: "http"}}}}
	g.Services = []*nomad.Service{{
		Name: "web", Provider: "nomad", PortLabel: "http", Tags: []string{"a"},
		Checks: []nomad.ServiceCheck{{Name: "answers", Type: "tcp", Interval: time.Second, Timeout: time.Second, OnUpdate: "ignore"}},
	}}
	task.Templates = []*nomad.Template{{
		EmbeddedTmpl: ref(`{{ with nomadVar "nomad/jobs/recorded" }}{{ .k }}{{ end }} {{ range nomadService "web" }}{{ .Port }}{{ end }}`),
		DestPath:     ref("local/out"), ChangeMode: ref("noop"),
	}}
	if s.atLeast(t, "1.7.0") {
		task.Identities = []*nomad.WorkloadIdentity{{Name: "vault", Audience: []string{"vault"}, File: true, TTL: time.Hour}}
	}
	s.run(t, j)
	s.deployed(t, "recorded", 0)
	s.run(t, job("ends", "batch", "exit 0"))
	s.allocs(t, "ends", "complete")
	fails := job("fails", "batch", "exit 3")
	fails.TaskGroups[0].RestartPolicy = &nomad.RestartPolicy{Attempts: ref(1), Delay: ref(10 * time.Millisecond), Interval: ref(time.Minute), Mode: ref("fail")}
	fails.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{Attempts: ref(0), Unlimited: ref(false)}
	s.run(t, fails)
	s.allocs(t, "fails", "failed")
}

// asks has a server ask a node for what it asks nodes for.
func (s *server) asks(t *testing.T, node string) {
	t.Helper()
	alloc := s.allocs(t, "recorded", "running")[0].ID
	a, _, err := s.client.Allocations().Info(alloc, nil)
	require.NoError(t, err)
	s.has(t, a, "alloc/logs/t.stdout.0", "hello\n")
	for _, line := range []string{
		"alloc logs A", "alloc fs A", "alloc fs -stat A alloc/logs/t.stdout.0", "alloc fs -tail -c 4 A alloc/logs/t.stdout.0",
		"alloc exec A /bin/echo done", "alloc status -stats A", "alloc checks A", "alloc signal -s SIGHUP A", "alloc restart A",
		"node status -stats N", "node meta apply -node-id N color=red", "node meta read -node-id N",
	} {
		said, code := s.cli(t, "", "", words(line, alloc, node)...)
		require.Zero(t, code, "%s: %s", line, said)
	}
	if s.atLeast(t, "1.11.0") {
		for _, line := range []string{"node identity get N", "node identity renew N"} {
			said, code := s.cli(t, "", "", words(line, alloc, node)...)
			require.Zero(t, code, "%s: %s", line, said)
		}
	}
	s.allocs(t, "recorded", "running")
	eventually(t, "a command in the task that was restarted", func() (bool, string) {
		var said bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		code, err := s.client.Allocations().Exec(ctx, a, "t", false, []string{"/bin/echo", "again"}, io.LimitReader(os.Stdin, 0), &said, &said, nil, nil)
		return err == nil && code == 0 && said.String() == "again\n", fmt.Sprint(err, code, said.String())
	})
	ended := s.allocs(t, "ends", "complete")[0].ID
	_ = s.client.Allocations().GC(&nomad.Allocation{ID: ended, NodeID: node}, nil) // it takes the empty answer for an error
}
