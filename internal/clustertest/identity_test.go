package clustertest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// TestIdentities has servers sign what tasks and the node are known by, again before it expires.
func TestIdentities(t *testing.T) {
	for _, binary := range binaries(t) {
		t.Run(filepath.Base(binary), func(t *testing.T) { identities(t, binary) })
	}
}

func identities(t *testing.T, binary string) {
	s := startServers(t, binary, 1, "acl { enabled = true }")[0]
	token := s.bootstrap(t)
	agent := startNode(t, "ours", "", s)
	node := s.ready(t, "ours")
	for _, name := range []string{"mine", "others"} {
		_, _, err := s.client.Variables().Create(&nomad.Variable{Path: "nomad/jobs/" + name, Items: nomad.VariableItems{"k": "value of " + name}}, nil)
		require.NoError(t, err)
	}
	j := job("mine", "service", `trap 'echo renewed' HUP; while true; do sleep 0.1; done`)
	task := j.TaskGroups[0].Tasks[0]
	task.Identity = &nomad.WorkloadIdentity{File: true}
	signs := s.atLeast(t, "1.7.0")
	if signs {
		task.Identities = []*nomad.WorkloadIdentity{{
			Name: "brief", Audience: []string{"a"}, File: true, TTL: 30 * time.Second, ChangeMode: "signal", ChangeSignal: "SIGHUP",
		}}
	}
	s.run(t, j)
	s.deployed(t, "mine", 0)
	alloc := s.allocs(t, "mine", "running")[0].ID
	secrets := filepath.Join(agent.data(), "alloc", alloc, "t", "secrets")
	t.Run("a task asks over its socket", func(t *testing.T) { socket(t, secrets) })
	if signs {
		t.Run("a token is renewed before it expires", func(t *testing.T) {
			file := filepath.Join(secrets, "nomad_brief.jwt")
			before := claimsOf(t, file)
			eventually(t, "another token", func() (bool, string) {
				now := claimsOf(t, file)
				require.Greater(t, now["exp"], float64(time.Now().Unix()-1), "it has expired")
				return now["exp"] != before["exp"], fmt.Sprint(now)
			})
			now := claimsOf(t, file)
			require.Equal(t, before["sub"], now["sub"])
			require.Equal(t, "a", fmt.Sprint(now["aud"]))
			eventually(t, "the task to be told", func() (bool, string) {
				said, _ := s.cli(t, token, "", "alloc", "logs", alloc)
				return strings.Contains(said, "renewed"), said
			})
		})
	}
	if s.atLeast(t, "1.11.0") {
		t.Run("the node gets another token", func(t *testing.T) {
			file := filepath.Join(agent.data(), "node_token.jwt")
			before := claimsOf(t, file)
			said, code := s.cli(t, token, "", "node", "identity", "renew", node)
			require.Zero(t, code, said)
			eventually(t, "another token", func() (bool, string) {
				now := claimsOf(t, file)
				return now["jti"] != before["jti"], fmt.Sprint(now)
			})
			require.Equal(t, before["sub"], claimsOf(t, file)["sub"])
			s.run(t, job("after", "batch", "exit 0"))
			s.allocs(t, "after", "complete")
		})
	}
	_, _, err := s.client.Jobs().Deregister("mine", false, nil)
	require.NoError(t, err)
	s.allocs(t, "mine", "complete")
}

// claimsOf are those of a token in a file, which nobody verifies.
func claimsOf(t *testing.T, file string) (claims map[string]any) {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	parts := strings.Split(strings.TrimSpace(string(b)), ".")
	require.Len(t, parts, 3)
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &claims))
	return claims
}

// socket asks as a task does: with its token, with none, and for what it may not read.
func socket(t *testing.T, secrets string) {
	dir, err := os.Open(secrets) // the path of a socket has 107 bytes
	require.NoError(t, err)
	defer dir.Close()
	path := fmt.Sprintf("/proc/self/fd/%d/api.sock", dir.Fd())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	token, err := os.ReadFile(filepath.Join(secrets, "nomad_token"))
	require.NoError(t, err)
	ask := func(path, token string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
		require.NoError(t, err)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := client.Do(request)
		require.NoError(t, err)
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(b)
	}
	code, said := ask("/v1/var/nomad/jobs/mine", string(token))
	require.Equal(t, 200, code, said)
	require.Contains(t, said, "value of mine")
	code, said = ask("/v1/agent/health", string(token))
	require.Equal(t, 200, code, said)
	code, said = ask("/v1/var/nomad/jobs/mine", "")
	require.Equal(t, 401, code, said)
	code, said = ask("/v1/var/nomad/jobs/others", string(token))
	require.NotContains(t, said, "value of others")
	require.Equal(t, 403, code, said)
}
