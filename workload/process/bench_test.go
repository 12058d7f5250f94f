package process_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/workload"
)

// From a start to the result, for the shortest process there is.
func BenchmarkProcess(b *testing.B) {
	s := newRuntime(b)
	for i := 0; b.Loop(); i++ {
		spec := &workload.Spec{
			ID:      fmt.Sprint(i),
			Process: &workload.Process{Command: "/bin/true", Dir: "/", Isolation: workload.IsolationNone},
			Logs:    workload.Logs{Disabled: true},
		}
		require.NoError(b, s.Start(b.Context(), spec))
		_, err := s.Wait(b.Context(), spec.ID)
		require.NoError(b, err)
		require.NoError(b, s.Destroy(b.Context(), spec.ID))
	}
}

// As BenchmarkProcess, with a root, namespaces and limits.
func BenchmarkIsolatedProcess(b *testing.B) {
	w := newWorld(b)
	for b.Loop() {
		spec := w.isolated("")
		spec.Process.Command, spec.Process.Args, spec.Logs.Disabled = "/bin/true", nil, true
		require.NoError(b, w.s.Start(b.Context(), spec))
		require.True(b, w.wait(spec).Successful())
		require.NoError(b, w.s.Destroy(b.Context(), spec.ID))
	}
}

// What a process that does nothing costs this one.
func BenchmarkStart(b *testing.B) {
	s := newRuntime(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		require.NoError(b, s.Start(b.Context(), &workload.Spec{
			ID:      fmt.Sprint(i),
			Process: &workload.Process{Command: "/bin/sleep", Args: []string{"1000"}, Dir: "/", Isolation: workload.IsolationNone},
			Logs:    workload.Logs{Disabled: true},
		}))
	}
}

// As BenchmarkStart, with a root, namespaces and limits.
func BenchmarkIsolatedStart(b *testing.B) {
	w := newWorld(b)
	for b.Loop() {
		spec := w.isolated("")
		spec.Process.Command, spec.Process.Args, spec.Logs.Disabled = "/bin/sleep", []string{"1000"}, true
		require.NoError(b, w.s.Start(b.Context(), spec))
	}
}
