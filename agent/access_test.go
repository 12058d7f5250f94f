package agent_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/agent/agenttest"
	"github.com/wasmnode/wasmnode/internal/certtest"
)

// bare are the options of an agent without plugins, with that configuration.
func bare(t *testing.T, config string) agent.Options {
	t.Helper()
	dir := t.TempDir()
	o := agent.Options{
		DataDir: filepath.Join(dir, "data"), PluginDir: filepath.Join(dir, "plugins"),
		HTTPAddr: "127.0.0.1:0", LogOutput: t.Output(), ConfigPaths: []string{filepath.Join(dir, "node.hcl")},
	}
	require.NoError(t, os.Mkdir(o.DataDir, 0o700))
	require.NoError(t, os.Mkdir(o.PluginDir, 0o700))
	require.NoError(t, os.WriteFile(o.ConfigPaths[0], []byte(config), 0o600))
	return o
}

// TestAnAddressIsShownAsItIs, and what a killed agent left is removed.
func TestAnAddressIsShownAsItIs(t *testing.T) {
	o := bare(t, "insecure_api = true")
	o.HTTPAddr = "0.0.0.0:0"
	left := []string{filepath.Join(o.DataDir, ".probe-1"), filepath.Join(o.DataDir, ".token.unfinished")}
	for _, path := range left {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	require.Regexp(t, `^0\.0\.0\.0:\d+$`, agenttest.Run(t, o))
	for _, path := range left {
		require.NoFileExists(t, path, "a killed agent left it")
	}
}

func client(t *testing.T, c nomad.Config) *nomad.Client {
	t.Helper()
	n, err := nomad.NewClient(&c)
	require.NoError(t, err)
	t.Cleanup(n.Close)
	return n
}

// socketPath is a path that is short enough for a socket.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "wasmnode.sock")
}

func TestANetworkIsLetInOnlyWhenTheOperatorSaysHow(t *testing.T) {
	authority := certtest.NewAuthority(t)
	cert, key := authority.Write(t, t.TempDir(), "127.0.0.1")
	files := fmt.Sprintf("http = true\n cert_file = %q\n key_file = %q\n", cert, key)
	for name, c := range map[string]struct {
		config  string
		refused bool
	}{
		"nothing":         {"", true},
		"TLS alone":       {"tls {\n" + files + "}", true},
		"ACLs":            {"acl { enabled = true }", false},
		"ACLs, off":       {"acl { enabled = false }", true},
		"mutual TLS":      {fmt.Sprintf("tls {\n%s ca_file = %q\n verify_https_client = true\n}", files, authority.File(t)), false},
		"the risk, named": {"insecure_api = true", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, address := range []string{"0.0.0.0:0", "[::]:0"} {
				o := bare(t, c.config)
				o.HTTPAddr = address
				if !c.refused {
					agenttest.Run(t, o)
					continue
				}
				check := nothingLeft(t)
				err := agent.Run(t.Context(), o)
				require.ErrorContains(t, err, "could run programs on this machine: set acl { enabled = true }, or tls with verify_https_client = true, or say insecure_api = true in the configuration")
				check()
			}
			for _, address := range []string{"127.0.0.1:0", "localhost:0", "127.8.8.8:0"} {
				o := bare(t, c.config)
				o.HTTPAddr = address
				agenttest.Run(t, o)
			}
		})
	}
}

func TestTheAPIOnASocket(t *testing.T) {
	path := socketPath(t)
	o := options(t)
	o.ConfigPaths = []string{filepath.Join(t.TempDir(), "node.hcl")}
	require.NoError(t, os.WriteFile(o.ConfigPaths[0], []byte("http_socket_group = \"daemon\"\nplugin \"raw_exec\" { grant { process { commands = [\"*\"] } } }"), 0o600))
	require.NoError(t, os.Remove(filepath.Join(o.PluginDir, "wasi.wasm")))
	o.HTTPAddr = "unix://" + path
	require.Equal(t, "unix://"+path, agenttest.Run(t, o))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o660), info.Mode().Perm())
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1)

	c := client(t, nomad.Config{Address: "unix://" + path})
	_, _, err = c.Jobs().Register(agenttest.Job("sleep", "raw_exec", map[string]any{"command": "/bin/sleep", "args": []string{"1000"}}), nil)
	require.NoError(t, err)
	awaitRunning(t, c, "sleep")
	stubs, _, err := c.Jobs().Allocations("sleep", true, nil)
	require.NoError(t, err)
	alloc, _, err := c.Allocations().Info(stubs[0].ID, nil)
	require.NoError(t, err)
	var out bytes.Buffer
	code, err := c.Allocations().Exec(t.Context(), alloc, "task", false, []string{"echo", "hello"}, strings.NewReader(""), &out, io.Discard, nil, nil)
	require.NoError(t, err)
	require.Zero(t, code)
	require.Equal(t, "hello\n", out.String())

	other := bare(t, "")
	other.HTTPAddr = "unix://" + path
	require.ErrorContains(t, agent.Run(t.Context(), other), "another process listens on "+path)
}

func TestASocketThatIsLeftIsReplacedAndNothingElseIs(t *testing.T) {
	path := socketPath(t)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	dead.SetUnlinkOnClose(false)
	require.NoError(t, dead.Close())
	require.FileExists(t, path)
	t.Run("a socket", func(t *testing.T) {
		o := bare(t, "")
		o.HTTPAddr = "unix://" + path
		c := client(t, nomad.Config{Address: agenttest.Run(t, o)})
		_, err := c.Status().Leader()
		require.NoError(t, err)
	})
	require.NoFileExists(t, path, "it goes with the agent")

	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	o := bare(t, "")
	o.HTTPAddr = "unix://" + path
	require.ErrorContains(t, agent.Run(t.Context(), o), path+" is there and not a socket")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "mine", string(content))

	o = bare(t, `http_socket_group = "nobody-has-this"`)
	o.HTTPAddr = "unix://" + socketPath(t)
	require.ErrorContains(t, agent.Run(t.Context(), o), `http_socket_group: there is no group "nobody-has-this"`)
	o = bare(t, "")
	o.HTTPAddr = "unix://" + filepath.Join(filepath.Dir(path), strings.Repeat("x", 100))
	require.ErrorContains(t, agent.Run(t.Context(), o), "the path of a socket can have 90 bytes")
}

func TestMutualTLSLetsInWhoHasACertificate(t *testing.T) {
	authority, stranger := certtest.NewAuthority(t), certtest.NewAuthority(t)
	dir := t.TempDir()
	cert, key := authority.Write(t, dir, "127.0.0.1")
	clientCert, clientKey := authority.Write(t, t.TempDir(), "operator")
	otherCert, otherKey := stranger.Write(t, t.TempDir(), "operator")
	o := bare(t, fmt.Sprintf("tls {\n http = true\n cert_file = %q\n key_file = %q\n ca_file = %q\n verify_https_client = true\n}", cert, key, authority.File(t)))
	logged, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer logged.Close()
	o.LogOutput, o.LogLevel = logged, "info"
	address := agenttest.Run(t, o)
	ask := func(scheme string, files nomad.TLSConfig) error {
		c := client(t, nomad.Config{Address: scheme + "://" + address, TLSConfig: &files})
		nodes, _, err := c.Nodes().List(nil)
		if err == nil {
			node, _, err := c.Nodes().Info(nodes[0].ID, nil)
			require.NoError(t, err)
			require.True(t, node.TLSEnabled)
		}
		return err
	}
	ca := authority.File(t)
	require.NoError(t, ask("https", nomad.TLSConfig{CACert: ca, ClientCert: clientCert, ClientKey: clientKey}))
	require.ErrorContains(t, ask("https", nomad.TLSConfig{CACert: ca}), "certificate required")
	require.ErrorContains(t, ask("https", nomad.TLSConfig{CACert: ca, ClientCert: otherCert, ClientKey: otherKey}), "tls: ")
	require.ErrorContains(t, ask("https", nomad.TLSConfig{ClientCert: clientCert, ClientKey: clientKey}), "unknown authority")
	require.ErrorContains(t, ask("http", nomad.TLSConfig{}), "HTTP request to an HTTPS server")

	// Whoever can connect can have it fail: it is counted, and no warning.
	c := client(t, nomad.Config{Address: "https://" + address, TLSConfig: &nomad.TLSConfig{CACert: ca, ClientCert: clientCert, ClientKey: clientKey}})
	require.EventuallyWithT(t, func(t *assert.CollectT) { // the node counts after its client has given up
		metrics, err := c.Raw().Response("/v1/metrics?format=prometheus", nil)
		require.NoError(t, err)
		defer metrics.Close()
		text, err := io.ReadAll(metrics)
		require.NoError(t, err)
		require.Regexp(t, `(?m)^wasmnode_http_handshakes_failed_total [4-9]$`, string(text))
	}, time.Minute, 10*time.Millisecond)
	lines, err := os.ReadFile(logged.Name())
	require.NoError(t, err)
	require.NotContains(t, string(lines), "handshake")

	// What is new in the files is in force for the next connection.
	before := served(t, address, clientCert, clientKey)
	authority.Write(t, dir, "127.0.0.1")
	require.Eventually(t, func() bool { return served(t, address, clientCert, clientKey) != before }, time.Minute, 10*time.Millisecond)
	before = served(t, address, clientCert, clientKey)
	// What is bad is told, and changes nothing.
	require.NoError(t, os.WriteFile(key, []byte("broken"), 0o600))
	c = client(t, nomad.Config{Address: "https://" + address, TLSConfig: &nomad.TLSConfig{CACert: ca, ClientCert: clientCert, ClientKey: clientKey}})
	require.Equal(t, before, served(t, address, clientCert, clientKey))
	health, err := c.Agent().Health()
	require.NoError(t, err)
	require.Contains(t, health.Client.Message, "tls: cert_file, key_file: ")
	require.Contains(t, health.Client.Message, "the certificates from before stay in use")
	authority.Write(t, dir, "127.0.0.1")
	require.NotEqual(t, before, served(t, address, clientCert, clientKey))
	health, err = c.Agent().Health()
	require.NoError(t, err)
	require.NotContains(t, health.Client.Message, "tls")
}

// served is the serial number of the certificate that a new connection gets.
func served(t *testing.T, address, certFile, keyFile string) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	require.NoError(t, err)
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}) // it is only looked at
	require.NoError(t, err)
	serial := c.ConnectionState().PeerCertificates[0].SerialNumber.String()
	require.NoError(t, c.Close())
	return serial
}

func TestCertificatesThatCannotBeReadKeepAnAgentFromStarting(t *testing.T) {
	authority := certtest.NewAuthority(t)
	cert, key := authority.Write(t, t.TempDir(), "127.0.0.1")
	bad := file(t, filepath.Join(t.TempDir(), "empty.pem"))
	for want, files := range map[string][3]string{
		"tls: cert_file, key_file: open /none.pem": {"/none.pem", key, ""},
		"tls: cert_file, key_file: ":               {cert, bad, ""},
		"tls: ca_file: " + bad:                     {cert, key, bad},
	} {
		check := nothingLeft(t)
		o := bare(t, fmt.Sprintf("tls {\n http = true\n cert_file = %q\n key_file = %q\n ca_file = %q\n}", files[0], files[1], files[2]))
		require.ErrorContains(t, agent.Run(t.Context(), o), want)
		check()
	}
}

func TestTokensOutliveTheAgent(t *testing.T) {
	o := bare(t, "acl { enabled = true }")
	var token *nomad.ACLToken
	t.Run("the first", func(t *testing.T) {
		c := client(t, nomad.Config{Address: "http://" + agenttest.Run(t, o)})
		_, _, err := c.Jobs().List(nil)
		require.ErrorContains(t, err, "Permission denied")
		token, _, err = c.ACLTokens().Bootstrap(nil)
		require.NoError(t, err)
	})
	address := "http://" + agenttest.Run(t, o)
	_, _, err := client(t, nomad.Config{Address: address, SecretID: token.SecretID}).Jobs().List(nil)
	require.NoError(t, err)
	_, _, err = client(t, nomad.Config{Address: address}).ACLTokens().Bootstrap(nil)
	require.ErrorContains(t, err, "ACL bootstrap already done")

	require.NoError(t, os.Mkdir(filepath.Join(o.DataDir, "server"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(o.DataDir, "server", "acl-bootstrap-reset"), fmt.Append(nil, token.CreateIndex), 0o600))
	_, _, err = client(t, nomad.Config{Address: address}).ACLTokens().Bootstrap(nil)
	require.NoError(t, err, "who may write the node's files may reset it")
}

// The limits that the configuration has by default are those that the API would have.
func TestTheAPIsMetricsHaveItsBounds(t *testing.T) {
	address := agenttest.Run(t, bare(t, ""))
	resp, err := http.Get("http://" + address + "/v1/metrics?format=prometheus")
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "wasmnode_http_in_flight{kind=\"reads\"} 1\n")
	require.Contains(t, string(text), "wasmnode_http_in_flight{kind=\"connections\"} 1\n")
	require.Contains(t, string(text), "go_goroutines")
}

// TestAKilledAgentsSocketIsSweptAway, and nothing else beside it.
func TestAKilledAgentsSocketIsSweptAway(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for name, file := range map[string]string{".s-old": "s", ".s-other": "theirs"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, file), nil, 0o600))
		require.NoError(t, os.Chtimes(filepath.Join(dir, name), old, old))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".s-new"), 0o700))
	o := bare(t, "")
	o.HTTPAddr = "unix://" + filepath.Join(dir, "api")
	agenttest.Run(t, o)
	require.NoDirExists(t, filepath.Join(dir, ".s-old"))
	require.FileExists(t, filepath.Join(dir, ".s-other", "theirs"))
	require.DirExists(t, filepath.Join(dir, ".s-new"))
}
