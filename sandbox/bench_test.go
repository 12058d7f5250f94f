package sandbox_test

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// BenchmarkInstances makes instances of a Go guest and keeps them: the time and the
// memory that one costs.
func BenchmarkInstances(b *testing.B) {
	m := compile(b, open(b, ""), guestbuild.Plugin(b, "sandbox/testdata/dice"))
	keepInstances(b, func() (*sandbox.Instance, error) { return m.Instantiate(b.Context(), reactor()) })
}

func keepInstances(b *testing.B, instantiate func() (*sandbox.Instance, error)) {
	before := memoryUsed(b)
	var kept []*sandbox.Instance
	for b.Loop() {
		i, err := instantiate()
		require.NoError(b, err)
		kept = append(kept, i)
	}
	b.ReportMetric(float64(memoryUsed(b)-before)/float64(len(kept)), "KiB/instance")
	for _, i := range kept {
		require.NoError(b, i.Close(b.Context()))
	}
}

// memoryUsed returns the process's share of the memory that it uses, in KiB: what
// several mappings share counts once.
func memoryUsed(b *testing.B) int {
	b.Helper()
	runtime.GC()
	rollup, err := os.ReadFile("/proc/self/smaps_rollup")
	require.NoError(b, err)
	_, rest, _ := strings.Cut(string(rollup), "Pss:")
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
