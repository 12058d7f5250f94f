package main

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/certtest"
)

// with runs a command with an environment that says where the node is and who asks.
func with(t *testing.T, env []string, args ...string) result {
	t.Helper()
	cmd := exec.Command(binary, args...)
	own := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "NOMAD_") })
	cmd.Env = slices.Concat(own, env, []string{"TZ=UTC"})
	return execute(t, cmd)
}

var secretID = regexp.MustCompile(`(?m)^Secret ID +=\s+([0-9a-f-]{36})$`)
var accessorID = regexp.MustCompile(`(?m)^Accessor ID +=\s+([0-9a-f-]{36})$`)

// TestANodeWithTLSAndTokens is the how-to, from one machine's command line: a node that
// asks for a certificate and a token, and every way to give them.
func TestANodeWithTLSAndTokens(t *testing.T) {
	authority := certtest.NewAuthority(t)
	ca := authority.File(t)
	cert, key := authority.Write(t, t.TempDir(), "127.0.0.1")
	clientCert, clientKey := authority.Write(t, t.TempDir(), "operator")
	s := newSite(t)
	s.grant(t, fmt.Sprintf("acl { enabled = true }\ntls {\n http = true\n ca_file = %q\n cert_file = %q\n key_file = %q\n verify_https_client = true\n}", ca, cert, key))
	n := s.start(t)
	_, port, _ := strings.Cut(n.address, ":")
	address := []string{"NOMAD_ADDR=https://" + n.address}
	tls := append(slices.Clone(address), "NOMAD_CACERT="+ca, "NOMAD_CLIENT_CERT="+clientCert, "NOMAD_CLIENT_KEY="+clientKey)

	wants(t, with(t, address, "job", "status"), 1, `cannot reach the node at https://127.0.0.1:\d+: .*unknown authority \(name its authority with -ca-cert or NOMAD_CACERT\)`)
	wants(t, with(t, tls[:2], "job", "status"), 1, `.*certificate required \(does it want a client's certificate\? .*\)`)
	wants(t, with(t, []string{"NOMAD_ADDR=http://" + n.address}, "job", "status"), 1, `cannot reach the node at http://127.0.0.1:\d+: it has TLS: its address begins with https://`)
	wants(t, with(t, tls, "job", "status"), 1, `Permission denied: show a token with -token or NOMAD_TOKEN`)
	wants(t, with(t, append(slices.Clone(tls), "NOMAD_ADDR=https://localhost:"+port), "job", "status"), 1, `.*\(name the certificate's host with -tls-server-name or NOMAD_TLS_SERVER_NAME\)`)

	made := with(t, tls, "acl", "bootstrap")
	require.Zero(t, made.code, made.stderr)
	manager := append(slices.Clone(tls), "NOMAD_TOKEN="+secretID.FindStringSubmatch(made.stdout)[1])
	wants(t, with(t, tls, "acl", "bootstrap"), 1, `ACL bootstrap already done \(reset index: \d+\)`)
	require.Equal(t, "No running jobs\n", with(t, manager, "job", "status").stdout)
	made = with(t, manager, "acl", "token", "create", "-name", "watcher", "-policy", "readonly")
	require.Zero(t, made.code, made.stderr)
	reader, accessor := secretID.FindStringSubmatch(made.stdout)[1], accessorID.FindStringSubmatch(made.stdout)[1]
	require.Equal(t, made.stdout, with(t, tls, "acl", "token", "self", "-token", reader).stdout)
	require.Equal(t, 3, strings.Count(with(t, manager, "acl", "token", "list").stdout, "\n"))
	require.Contains(t, with(t, manager, "acl", "token", "info", accessor).stdout, "watcher")

	// Flags instead of the environment, over it.
	flags := []string{"-address", "https://localhost:" + port, "-ca-cert", ca, "-client-cert", clientCert, "-client-key", clientKey, "-token", reader}
	over := append(slices.Clone(manager), "NOMAD_CACERT=/none", "NOMAD_CLIENT_CERT=/none")
	r := with(t, over, append([]string{"job", "status", "-tls-server-name", "127.0.0.1", "-namespace", "default", "-region", "global"}, flags...)...)
	require.Equal(t, result{0, "No running jobs\n", ""}, r)
	r = with(t, over, append([]string{"job", "status", "-tls-skip-verify"}, flags...)...)
	require.Zero(t, r.code, r.stderr)
	wants(t, with(t, over, append([]string{"system", "gc", "-tls-skip-verify"}, flags...)...), 1, "Permission denied")
	wants(t, with(t, over, "job", "status"), 1, `connecting to https://.*: .*/none.*`)

	require.Equal(t, "Token "+accessor+" successfully deleted\n", with(t, manager, "acl", "token", "delete", accessor).stdout)
	wants(t, with(t, tls, "job", "status", "-token", reader), 1, "ACL token not found")
}

func TestANodeOnASocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "s")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	address := "unix://" + filepath.Join(dir, "api.sock")
	s := newSite(t)
	s.start(t, "-http-addr", address)
	require.Equal(t, result{0, "No running jobs\n", ""}, with(t, []string{"NOMAD_ADDR=" + address}, "job", "status"))
	require.Equal(t, result{0, "No running jobs\n", ""}, with(t, nil, "job", "status", "-address", address))
	require.Regexp(t, `(?m)^ok +node +agent +it answers at `+address+`$`, with(t, nil, "doctor", "-address", address).stdout)
	wants(t, with(t, nil, "acl", "token", "list", "-address", address), 1, "ACL support disabled")
	wants(t, with(t, nil, "job", "status", "-address", address+"x"), 1, "cannot reach the node at unix:///.*: .*no such file or directory .*")
	refused := &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)}
	socket := filepath.Join(dir, "api.sock")
	require.Equal(t, "the socket is for its owner and its group: http_socket_group", hint(address, "", refused))
	gid := max(1, os.Getgid())
	group, err := user.LookupGroupId(strconv.Itoa(gid))
	require.NoError(t, err)
	require.NoError(t, os.Chown(socket, -1, gid))
	require.NoError(t, os.Chmod(socket, 0o660))
	require.Equal(t, fmt.Sprintf("it is for root and the group %s: sudo usermod -aG %[1]s $USER, and log in again", group.Name), hint(address, "", refused))
	require.Equal(t, "the -address or NOMAD_ADDR of a node is one such as http://127.0.0.1:4646", hint("", "", &url.Error{Err: &net.DNSError{Name: "foo"}}))
	absent := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	require.Equal(t, "the node of this machine's package is asked on its socket: export NOMAD_ADDR="+address, hint(defaultAddress, socket, absent))
	require.Equal(t, "is an agent running? wasmnode agent -dev", hint("http://10.0.0.1:4646", socket, absent))
	require.Equal(t, "is an agent running? wasmnode agent -dev", hint(defaultAddress, filepath.Join(dir, "none"), absent))
}

func TestABootstrapSecretThatIsGiven(t *testing.T) {
	s := newSite(t)
	s.grant(t, "acl { enabled = true }")
	n := s.start(t)
	const secret = "2b778dd9-f5f1-6f29-b4b4-9a5fa948757a"
	file := write(t, filepath.Join(t.TempDir(), "secret"), secret+"\n")
	require.Contains(t, n.out(t, "acl", "bootstrap", file), secret)
	require.Contains(t, n.out(t, "acl", "token", "self", "-token", secret), "Bootstrap Token")
	wants(t, n.run(t, "acl", "bootstrap", write(t, file, "\n")), 1, ".* has no secret in it")
}
