package process_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/namespace"
)

// newNetwork returns the path of a network namespace: that of a process that lives as long
// as the test.
func newNetwork(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make network namespaces")
	}
	path := filepath.Join(t.TempDir(), "net")
	require.NoError(t, os.WriteFile(path, nil, 0o444))
	out, err := exec.Command("unshare", "--net="+path, "true").CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Cleanup(func() { require.NoError(t, exec.Command("umount", path).Run()) })
	return path
}

// networkOf is what the kernel calls the network namespace of this program.
func networkOf(t *testing.T) string {
	t.Helper()
	name, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	return name
}

func TestAProcessIsInTheNetworkThatItIsGiven(t *testing.T) {
	path := newNetwork(t)
	own := networkOf(t)
	for name, script := range map[string]func(w *world, text string) *workload.Spec{
		"not isolated": (*world).script,
		"isolated":     (*world).isolated,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			spec := script(w, "readlink /proc/self/ns/net; sleep 60")
			spec.Process.Network = path
			require.NoError(t, w.s.Start(w.context(), spec))
			inside := w.ready(spec)
			require.NotEqual(t, own, inside)

			var out bytes.Buffer
			_, err := w.s.Exec(w.context(), spec.ID, &workload.ExecSpec{Command: "readlink", Args: []string{"/proc/self/ns/net"}, Stdout: &out, Stderr: &out})
			require.NoError(t, err)
			require.Equal(t, inside, strings.TrimSpace(out.String()), "a command in it")

			_, after := w.run("readlink /proc/self/ns/net")
			require.Equal(t, own, strings.TrimSpace(after), "what starts afterwards is in the node's")
			require.NoError(t, w.s.Destroy(context.Background(), spec.ID))
		})
	}
}

func TestAProcessWhoseNetworkIsGoneDoesNotStart(t *testing.T) {
	w := newWorld(t)
	spec := w.script("true")
	spec.Process.Network = filepath.Join(t.TempDir(), "none")
	err := w.s.Start(w.context(), spec)
	require.Equal(t, abi.FailedPrecondition, abi.CodeOf(err))
	require.ErrorContains(t, err, "the network namespace "+spec.Process.Network+" is not there")
	dir := w.script("").Process.Dir
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	for _, path := range []string{dir, pipe} { // to open the pipe would wait for ever
		spec.Process.Network = path
		err = w.s.Start(w.context(), spec)
		require.Equal(t, abi.InvalidArgument, abi.CodeOf(err))
		require.ErrorContains(t, err, path+" is no namespace")
	}
}

func TestAProcessIsNotInANetworkThatHasTakenThePlaceOfItsOwn(t *testing.T) {
	judged, other := newNetwork(t), newNetwork(t)
	f, err := namespace.OpenNetwork(judged, "")
	require.NoError(t, err)
	defer f.Close()
	id, err := namespace.ID(f)
	require.NoError(t, err)
	w := newWorld(t)
	spec := w.script("exit 3")
	spec.Process.Network, spec.Process.NetworkID = judged, id
	result, _ := w.finish(spec)
	require.Equal(t, 3, result.ExitCode)
	link := filepath.Join(t.TempDir(), "link")
	for _, path := range []string{other, "/proc/self/ns/net"} {
		require.NoError(t, os.Symlink(path, link))
		spec = w.script("true")
		spec.Process.Network, spec.Process.NetworkID = link, id
		err = w.s.Start(w.context(), spec)
		require.Equal(t, abi.FailedPrecondition, abi.CodeOf(err))
		require.ErrorContains(t, err, "leads to another network namespace than when it was asked for")
		require.NoError(t, os.Remove(link))
	}
}

func TestAProcessWithoutANetworkAndCommandsInItReachNobodyElse(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make network namespaces")
	}
	own := networkOf(t)
	for name, script := range map[string]func(w *world, text string) *workload.Spec{"not isolated": (*world).script, "isolated": (*world).isolated} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			spec := script(w, "readlink /proc/self/ns/net; sleep 60")
			spec.Process.Network = workload.NoNetwork
			require.NoError(t, w.s.Start(w.context(), spec))
			inside := w.ready(spec)
			require.NotEqual(t, own, inside)
			r := w.exec(spec.ID, nil, "readlink /proc/self/ns/net; cat /proc/net/fib_trie | grep -q 127.0.0.1 && tail -n +3 /proc/net/dev | cut -d: -f1")
			require.NoError(t, r.err)
			require.Equal(t, []string{inside, "lo"}, strings.Fields(r.stdout), "a command in it")
			require.NoError(t, w.s.Destroy(context.Background(), spec.ID))
		})
	}
}
