package standalone

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/structs"
)

// BenchmarkDispatch dispatches jobs, each to its end, of several clients at once, with a file
// that is at its bound. It reports how many a minute that are, the file and the heap: 5,000 a minute
// are asked for, with both flat.
func BenchmarkDispatch(b *testing.B) {
	b.Setenv(boltfile.StrictEnv, "0") // which reads all of the file after each write
	limits := DefaultLimits()
	limits.Size = 8 << 20
	s, err := Open(Options{Path: filepath.Join(b.TempDir(), "server.db"), Limits: limits})
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close()) }()
	_, err = s.ForNode().Register(b.Context(), testNode())
	require.NoError(b, err)
	_, err = s.RegisterJob(&structs.JobRegistration{Job: testJob("many", "batch", memory(10), func(j *nomad.Job) { j.ParameterizedJob = &nomad.ParameterizedJobConfig{} })})
	require.NoError(b, err)
	for s.file.InUse() < limits.Size {
		dispatchOne(b, s)
	}
	b.ResetTimer()
	b.SetParallelism(8) // clients that share a transaction
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			dispatchOne(b, s)
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Minutes(), "dispatches/min")
	b.ReportMetric(5000, "dispatches/min-asked")
	b.ReportMetric(float64(s.file.InUse())/(1<<20), "file-MiB")
	b.ReportMetric(heapMiB(), "heap-MiB")
}

func dispatchOne(tb testing.TB, s *ControlPlane) {
	made, err := s.DispatchJob(&structs.JobDispatch{Namespace: "default", JobID: "many", Payload: make([]byte, 1000)})
	require.NoError(tb, err)
	for _, status := range []structs.ClientStatus{structs.ClientRunning, structs.ClientComplete} {
		a := s.JobAllocations("default", made.JobID)[0]
		require.NoError(tb, s.ForNode().UpdateAllocations(tb.Context(), a.NodeID, []*structs.AllocationState{{ID: a.ID, ClientStatus: status}}))
	}
}

func heapMiB() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// TestDispatchesDoNotGetSlower compares the first dispatches with later ones, when many are
// known: a dispatch costs no more because of those before it.
func TestDispatchesDoNotGetSlower(t *testing.T) {
	s := withNode(t, "")
	registered(t, s, testJob("many", "batch", func(j *nomad.Job) { j.ParameterizedJob = &nomad.ParameterizedJobConfig{} }))
	hundred := func() time.Duration {
		start := time.Now()
		for range 100 {
			dispatchOne(t, s)
		}
		return time.Since(start)
	}
	hundred()
	first := min(hundred(), hundred(), hundred())
	for range 30 {
		hundred()
	}
	require.Len(t, children(s, "many"), 3400)
	// Ten times is far less than what looking at each would cost, and far more than chance.
	require.Less(t, min(hundred(), hundred(), hundred()), 10*first+100*time.Millisecond)
}
