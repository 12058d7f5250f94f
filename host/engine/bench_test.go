package engine_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/wasmnode/wasmnode/host/engine"
	"github.com/wasmnode/wasmnode/host/internal/modtest"
	"github.com/wasmnode/wasmnode/internal/guestbuild"
)

// BenchmarkInstances makes instances of a Go guest and keeps them: the time and the
// resident memory that one costs.
func BenchmarkInstances(b *testing.B) {
	m := compile(b, open(b, ""), guestbuild.Plugin(b, "internal/guestbuild/testdata/plugin"))
	before := resident(b)
	var kept []*engine.Instance
	for range b.N {
		i, err := m.Instantiate(b.Context(), wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").WithSysWalltime().WithSysNanotime())
		require.NoError(b, err)
		kept = append(kept, i)
	}
	b.StopTimer()
	b.ReportMetric(float64(resident(b)-before)/float64(b.N), "KiB/instance")
	for _, i := range kept {
		require.NoError(b, i.Close(b.Context()))
	}
}

// resident returns the process's resident memory in KiB.
func resident(b *testing.B) int {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(b, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(b, err)
	return n
}

// BenchmarkEmptyCall calls a function that returns what it gets.
func BenchmarkEmptyCall(b *testing.B) {
	m := compile(b, open(b, ""), run(0, modtest.Get(0)).Bytes())
	i := instantiate(b, m)
	f, stack := i.ExportedFunction("run"), []uint64{1}
	b.ReportAllocs()
	for b.Loop() {
		if err := i.Call(b.Context(), f, stack); err != nil {
			b.Fatal(err)
		}
	}
}
