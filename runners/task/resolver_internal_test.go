package task

import (
	"os"
	"path/filepath"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/taskenv"
	"github.com/wasmnode/wasmnode/structs"
)

func TestWhatADNSBlockLeavesOutIsTheNodes(t *testing.T) {
	nodes := filepath.Join(t.TempDir(), "resolv.conf")
	require.NoError(t, os.WriteFile(nodes, []byte("# ours\nnameserver 10.0.0.1\nnameserver 10.0.0.2\nsearch a.example b.example\noptions ndots:2\n"), 0o600))
	alloc := &structs.Allocation{Job: &nomad.Job{}}
	env := taskenv.NewBuilder(&structs.Node{}, alloc, &nomad.Task{Name: "t", Env: map[string]string{"S": "1.1.1.1"}}).Build()
	for _, c := range []struct {
		dns  nomad.DNSConfig
		want string
	}{
		{nomad.DNSConfig{}, "nameserver 10.0.0.1\nnameserver 10.0.0.2\nsearch a.example b.example\noptions ndots:2\n"},
		{nomad.DNSConfig{Servers: []string{"${env[\"S\"]}", "::1"}}, "nameserver 1.1.1.1\nnameserver ::1\nsearch a.example b.example\noptions ndots:2\n"},
		{nomad.DNSConfig{Searches: []string{"x"}, Options: []string{"rotate", "edns0"}}, "nameserver 10.0.0.1\nnameserver 10.0.0.2\nsearch x\noptions rotate edns0\n"},
	} {
		got, err := resolverText(&c.dns, env, nodes)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	got, err := resolverText(&nomad.DNSConfig{Servers: []string{"1.1.1.1"}}, env, nodes+".none")
	require.NoError(t, err)
	require.Equal(t, "nameserver 1.1.1.1\n", got)
	for _, text := range []string{"1.1.1.1\nnameserver 2.2.2.2", "", "a b", "a\x00"} {
		_, err := resolverText(&nomad.DNSConfig{Searches: []string{text}}, env, nodes)
		require.ErrorContains(t, err, "is not one word", "%q", text)
	}
}
