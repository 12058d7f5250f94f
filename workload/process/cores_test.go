package process_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
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
