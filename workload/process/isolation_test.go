package process_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/process"
)

// programs are the directories of the node that isolated scripts have.
var programs = []string{"/bin", "/etc", "/lib", "/lib64", "/sbin", "/usr"}

// isolated returns the spec of a script that runs isolated, as nobody; $0 is the token.
func (w *world) isolated(text string) *workload.Spec {
	w.t.Helper()
	if err := process.FullIsolation(); err != nil {
		w.t.Skip("this machine cannot isolate processes: ", err)
	}
	spec := w.script(text)
	spec.MemoryMaxBytes = 64 << 20
	p := spec.Process
	p.Isolation, p.User, p.Dir = workload.IsolationFull, "nobody", "/"
	p.Isolated = &workload.Isolated{Root: w.t.TempDir(), CPUShares: 300}
	for _, dir := range programs {
		if _, err := os.Stat(dir); err == nil {
			p.Isolated.Mounts = append(p.Isolated.Mounts, workload.Mount{GuestPath: dir, HostPath: dir, ReadOnly: true})
		}
	}
	require.NoError(w.t, os.Mkdir(filepath.Join(p.Isolated.Root, "local"), 0o777))
	require.NoError(w.t, os.Chmod(filepath.Join(p.Isolated.Root, "local"), 0o777))
	return spec
}

// runIsolated runs a script isolated to its end.
func (w *world) runIsolated(text string) (*structs.ExitResult, string) {
	w.t.Helper()
	spec := w.isolated(text)
	require.NoError(w.t, w.s.Start(w.context(), spec))
	return w.wait(spec), w.said(spec)
}

func TestAnIsolatedProcessSeesItsRootOnly(t *testing.T) {
	result, said := newWorld(t).runIsolated(`ls -a / | tr '\n' ' '; ls /root /home /var; id; cat /proc/self/mountinfo; ls -la /dev; exec 2>&1; grep Cap /proc/self/status`)
	t.Log(said)
	require.True(t, result.Successful(), result)
}
