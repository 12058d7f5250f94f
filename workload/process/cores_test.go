package process_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/process"
)

// TestAProcessIsKeptOnItsCores asks processes, and commands in them, on which processors they
// may run.
func TestAProcessIsKeptOnItsCores(t *testing.T) {
	var own unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &own))
	if own.Count() < 2 {
		t.Skip("with one processor there is nothing to choose")
	}
	const ask = "grep Cpus_allowed_list /proc/self/status; "
	for name, script := range map[string]func(*world, string) *workload.Spec{"plain": (*world).script, "isolated": (*world).isolated} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, all := w.finish(script(w, ask))
			seen := map[string]bool{all: true}
			for _, core := range []uint32{0, 1} {
				spec := script(w, ask+waiting)
				spec.Process.Cores = []uint32{core}
				require.NoError(t, w.s.Start(w.context(), spec))
				one, _, _ := strings.Cut(w.ready(spec), "\n")
				require.False(t, seen[one], one)
				seen[one] = true
				require.NotRegexp(t, "[0-9][,-]", one, "it is one core")
				r := w.exec(spec.ID, nil, ask)
				require.NoError(t, r.err)
				require.Equal(t, one, strings.TrimSpace(r.stdout), "a command in it")
			}
			_, after := w.finish(script(w, ask))
			require.Equal(t, all, after, "others begin on all")
			spec := script(w, "true")
			spec.Process.Cores = []uint32{4096}
			err := w.s.Start(w.context(), spec)
			require.Equal(t, abi.InvalidArgument, abi.CodeOf(err))
			require.ErrorContains(t, err, "there is no core 4096: the supervisor may use")
		})
	}
}

// TestAProcessIsHandedOverWhoseCoresMayNotBeUsedAnyMore narrows what the supervisor may use, in a process of its own:
// threads that Go makes meanwhile stay where they began.
func TestAProcessIsHandedOverWhoseCoresMayNotBeUsedAnyMore(t *testing.T) {
	var own unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(os.Getpid(), &own))
	if own.Count() < 2 {
		t.Skip("with one processor there is nothing to choose")
	}
	const inside = "WASMNODE_TEST_CORES"
	if os.Getenv(inside) == "" {
		self := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		self.Env = append(os.Environ(), inside+"=1")
		output, err := self.CombinedOutput()
		require.NoError(t, err, string(output))
		return
	}
	w := newWorld(t)
	spec := w.script(waiting)
	spec.Process.Cores = []uint32{uint32(own.Count() - 1)}
	require.NoError(t, w.s.Start(w.context(), spec))
	w.ready(spec)
	var one unix.CPUSet
	for cpu := 0; one.Count() == 0; cpu++ {
		if own.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	require.NoError(t, unix.SchedSetaffinity(os.Getpid(), &one))
	require.ErrorContains(t, w.exec(spec.ID, nil, "true").err, "there is no core")

	next := w.handOver()
	require.NoError(t, next.Signal(w.context(), spec.ID, "SIGCONT"), "it runs")
	require.NoError(t, next.Stop(w.context(), spec.ID, "SIGKILL", 0))
}

// handOver returns a runtime that goes on with the processes of the world's. It has files of its own, as both are
// in one process.
func (w *world) handOver() *process.Runtime {
	w.t.Helper()
	h := w.s.Pause()
	w.t.Cleanup(w.s.Resume) // it finds that they have ended
	files := []*int{&h.Lock}
	for _, p := range h.Processes {
		files = append(files, &p.PidFD, &p.Stdout, &p.Stderr)
	}
	for _, fd := range files {
		own, err := unix.Dup(*fd)
		require.NoError(w.t, err)
		*fd = own
	}
	next, err := process.New(process.Config{Logger: hclog.NewNullLogger(), Name: newName(), Handover: h})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, next.Close()) })
	return next
}
