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

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
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
	spec.Process.Network = w.script("").Process.Dir // a directory
	err = w.s.Start(w.context(), spec)
	require.ErrorContains(t, err, "entering the task's net namespace")
}
