package clustertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-version"
	"github.com/stretchr/testify/require"
)

// versionOf is a server's, as its binary tells it.
func versionOf(t *testing.T, binary string) *version.Version {
	t.Helper()
	out, err := exec.Command(binary, "version").Output()
	require.NoError(t, err)
	words := strings.Fields(string(out))
	require.Greater(t, len(words), 1)
	v, err := version.NewVersion(words[1])
	require.NoError(t, err)
	return v
}

// certificates makes an authority and certificates of a server and a client, with the
// servers' own commands, and returns their directory.
func certificates(t *testing.T, binary string) string {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{{"ca", "create"}, {"cert", "create", "-server"}, {"cert", "create", "-client"}} {
		cmd := exec.Command(binary, append([]string{"tls"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return dir
}

func tlsBlock(dir, role string) string {
	return fmt.Sprintf(`
tls {
  rpc                    = true
  verify_server_hostname = true
  ca_file   = "%[1]s/nomad-agent-ca.pem"
  cert_file = "%[1]s/global-%[2]s-nomad.pem"
  key_file  = "%[1]s/global-%[2]s-nomad-key.pem"
}
`, dir, role)
}

// TestAClusterThatLetsNotEverybodyIn has certificates and, where the servers know them, tokens
// that introduce nodes.
func TestAClusterThatLetsNotEverybodyIn(t *testing.T) {
	for _, binary := range binaries(t) {
		t.Run(filepath.Base(binary), func(t *testing.T) { secured(t, binary) })
	}
}

func secured(t *testing.T, binary string) {
	dir := certificates(t, binary)
	introduces := !versionOf(t, binary).LessThan(version.Must(version.NewVersion("1.11.0")))
	more := tlsBlock(dir, "server")
	if introduces {
		more += "server { client_introduction { enforcement = \"strict\" } }\n"
	}
	s := startServers(t, binary, 1, more)[0]

	plain := startNode(t, "plain", "", s)
	eventually(t, "what is wrong without TLS", func() (bool, string) {
		return strings.Contains(plain.log(), "set tls { rpc = true } where the servers want TLS"), plain.log()
	})
	ours := startNode(t, "ours", tlsBlock(dir, "client"), s)
	if introduces {
		eventually(t, "that a token is missing", func() (bool, string) {
			return strings.Contains(ours.log(), "Permission denied: the servers take only nodes that are introduced"), ours.log()
		})
		ours.end(os.Interrupt)
		cmd := exec.Command(binary, "node", "intro", "create", "-node-name=ours")
		cmd.Env = append(os.Environ(), "NOMAD_ADDR="+s.client.Address())
		out, err := cmd.Output()
		require.NoError(t, err)
		var token string
		for _, word := range strings.Fields(string(out)) {
			if strings.HasPrefix(word, "ey") {
				token = word
			}
		}
		require.NotEmpty(t, token, "%s", out)
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(ours.args[3]), "data", "intro_token.jwt"), []byte(token+"\n"), 0o600))
		ours.start(t)
	}
	s.ready(t, "ours")
	s.run(t, job("good", "batch", "exit 0"))
	s.allocs(t, "good", "complete")
}
