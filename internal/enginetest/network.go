package enginetest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ownNetworkEnv is set in a process that has a network of its own.
const ownNetworkEnv = "WASMNODE_TEST_OWN_NETWORK"

// InOwnNetwork runs the test that calls it in a process with a network of its own, where engines
// and agents may make interfaces and rules that end with it. It reports whether this is that
// process; in the other one the test has then been run.
func InOwnNetwork(t *testing.T, arguments ...string) bool {
	t.Helper()
	if os.Getenv(ownNetworkEnv) == t.Name() {
		require.NoError(t, loopbackUp())
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can make a network")
	}
	cmd := exec.Command(os.Args[0], append([]string{"-test.run=^" + t.Name() + "$", "-test.v"}, arguments...)...)
	cmd.Env = append(os.Environ(), ownNetworkEnv+"="+t.Name())
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	require.NoError(t, cmd.Run(), "in a network of its own")
	return false
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// MakeNetwork makes a network for containers, which lasts as long as the engine.
func (e *Engine) MakeNetwork(t testing.TB, name string) {
	t.Helper()
	status, answer := e.do("POST", "/networks/create", fmt.Appendf(nil, `{"Name": %q}`, name), "Content-Type", "application/json")
	require.Equal(t, http.StatusCreated, status, answer)
}

// Busybox is an image with a shell, of a [NetworkedDocker].
const Busybox = "busybox:1"

// NetworkedDocker starts Debian's docker.io with its bridge and its rules, in a test that is
// [InOwnNetwork]. It has the image [Busybox], too, and more of it by name, each with changes as
// a Dockerfile has them.
func NetworkedDocker(t testing.TB, more map[string]string) *Engine {
	t.Helper()
	require.NotEmpty(t, os.Getenv(ownNetworkEnv), "it would change the machine's network")
	need(t, "busybox", "busybox-static")
	runc, err := exec.LookPath("runc")
	require.NoError(t, err)
	e := docker(t, "--add-runtime=runsc="+runc) // another runtime, for who looks no closer than at its name
	files := shell(t)
	e.load(t, files, Busybox, "")
	for name, changes := range more {
		e.load(t, files, name, changes)
	}
	return e
}

// Namespaces is the directory where Docker keeps the networks of its containers.
func (e *Engine) Namespaces() string { return filepath.Join(filepath.Dir(e.Socket), "exec", "netns") }

// load makes an image of a file system.
func (e *Engine) load(t testing.TB, files []byte, name, changes string) {
	t.Helper()
	repository, tag, _ := strings.Cut(name, ":")
	q := url.Values{"fromSrc": {"-"}, "repo": {repository}, "tag": {tag}}
	for change := range strings.Lines(changes) {
		q.Add("changes", change)
	}
	status, answer := e.do("POST", "/images/create?"+q.Encode(), files)
	require.Equal(t, http.StatusOK, status, answer)
}

// shell is a file system with Debian's static busybox.
func shell(t testing.TB) []byte {
	t.Helper()
	path, err := exec.LookPath("busybox")
	require.NoError(t, err)
	program, err := os.ReadFile(path)
	require.NoError(t, err)
	applets, err := exec.Command(path, "--list").Output()
	require.NoError(t, err)
	files := []struct {
		header  tar.Header
		content string
	}{
		{tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}, ""},
		{tar.Header{Name: "bin/busybox", Mode: 0o755}, string(program)},
		{tar.Header{Name: "etc/passwd", Mode: 0o644}, "root:x:0:0:root:/:/bin/sh\n"},
		{tar.Header{Name: "etc/group", Mode: 0o644}, "root:x:0:\n"},
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		f.header.Size = int64(len(f.content))
		require.NoError(t, w.WriteHeader(&f.header))
		_, err := w.Write([]byte(f.content))
		require.NoError(t, err)
	}
	for name := range strings.FieldsSeq(string(applets)) {
		if name != "busybox" {
			require.NoError(t, w.WriteHeader(&tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox"}))
		}
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}
