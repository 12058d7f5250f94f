package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/process"
	"github.com/wasmnode/wasmnode/workload/workloadtest"
)

var supervisors atomic.Int64

func newRuntime(t testing.TB) *process.Runtime {
	t.Helper()
	return newRuntimeOf(t, newName())
}

// newName returns a name for a runtime that no other has.
func newName() string { return fmt.Sprintf("test-%d-%d", os.Getpid(), supervisors.Add(1)) }

func newRuntimeOf(t testing.TB, name string) *process.Runtime {
	t.Helper()
	t.TempDir() // the test's directory is then removed after all that writes in it has ended
	s, err := process.New(process.Config{Logger: hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Warn}), Name: name})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.NoError(t, s.Close(), "closing twice")
	})
	return s
}

// guest is the suite's program for this machine.
var guest = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "guest")
	output, err := exec.Command("go", "build", "-tags=netgo", "-o", path, "../workloadtest/testdata/guest").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, output)
	}
	return path, err
})

func TestRuntimeConforms(t *testing.T) {
	command, err := guest()
	require.NoError(t, err)
	workloadtest.Run(t, workloadtest.Fixture{
		New: func(t testing.TB) workload.Runtime { return newRuntime(t) },
		Program: func(t testing.TB, spec *workload.Spec, args ...string) {
			spec.Process = &workload.Process{Command: command, Args: args, Dir: t.TempDir(), Isolation: workload.IsolationNone}
		},
		Unconfined: true,
	})
}

func TestRuntimeConformsWithFullIsolation(t *testing.T) {
	if err := process.FullIsolation(); err != nil {
		t.Skip("this machine cannot isolate processes: ", err)
	}
	command, err := guest()
	require.NoError(t, err)
	workloadtest.Run(t, workloadtest.Fixture{
		New: func(t testing.TB) workload.Runtime { return newRuntime(t) },
		Program: func(t testing.TB, spec *workload.Spec, args ...string) {
			spec.Process = &workload.Process{
				Command: "/bin/guest", Args: args, Dir: "/", Isolation: workload.IsolationFull,
				Isolated: &workload.Isolated{Root: t.TempDir(), Mounts: []workload.Mount{program(command)}},
			}
		},
		Mount: func(spec *workload.Spec, mounts []workload.Mount) {
			spec.Process.Isolated.Mounts = append([]workload.Mount{program(command)}, mounts...)
		},
		FilesAnywhere:  true,
		MemoryMaxBytes: 64 << 20,
	})
}

func program(command string) workload.Mount {
	return workload.Mount{GuestPath: "/bin/guest", HostPath: command, ReadOnly: true}
}
