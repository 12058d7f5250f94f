package standalone

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// BenchmarkEndsBesideMany is what 300 ends of allocations cost, one after the other, while the
// 300 jobs wait for room that these were preempted of.
func BenchmarkEndsBesideMany(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		cp, victims := preemptedCrowd(b)
		b.StartTimer()
		for _, v := range victims {
			state := &structs.AllocationState{ID: v.ID, ClientStatus: structs.ClientComplete}
			require.NoError(b, cp.ForNode().UpdateAllocations(b.Context(), v.NodeID, []*structs.AllocationState{state}))
		}
		b.StopTimer()
		require.NoError(b, cp.Close())
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed())/float64(time.Millisecond)/300/float64(b.N), "ms/end")
}

// preemptedCrowd is a control plane in which a hundred have just preempted 300 of 500.
func preemptedCrowd(b *testing.B) (*ControlPlane, []*structs.Allocation) {
	cp, err := Open(Options{})
	require.NoError(b, err)
	n := testNode()
	n.Resources = structs.NodeResources{CPUMHz: 1 << 20, Cores: 4, MemoryMB: 500 * 100, DiskMB: 1 << 30}
	_, err = cp.ForNode().Register(b.Context(), n)
	require.NoError(b, err)
	c := *cp.SchedulerConfiguration()
	servicesPreempt(&c)
	_, err = cp.SetSchedulerConfiguration(c, nil)
	require.NoError(b, err)
	for i := range 500 {
		_, err := cp.RegisterJob(&structs.JobRegistration{Job: testJob(fmt.Sprint("low-", i), "service", priority(10))})
		require.NoError(b, err)
	}
	_, err = cp.RegisterJob(&structs.JobRegistration{Job: testJob("high", "service", memory(300), count(100), priority(90))})
	require.NoError(b, err)
	var victims []*structs.Allocation
	for _, a := range cp.Allocations() {
		if a.DesiredStatus == structs.DesiredEvict {
			victims = append(victims, a)
		}
	}
	require.Len(b, victims, 300)
	return cp, victims
}

// BenchmarkEvaluation is what it costs to register a job, and to stop it, beside so many
// allocations of others that run.
func BenchmarkEvaluation(b *testing.B) {
	for _, others := range []int{20, 2000} {
		b.Run(fmt.Sprint(others), func(b *testing.B) {
			cp, err := Open(Options{})
			require.NoError(b, err)
			defer func() { require.NoError(b, cp.Close()) }()
			n := testNode()
			n.Resources = structs.NodeResources{CPUMHz: 1 << 20, Cores: 4, MemoryMB: 1 << 20, DiskMB: 1 << 30}
			_, err = cp.ForNode().Register(b.Context(), n)
			require.NoError(b, err)
			_, err = cp.RegisterJob(&structs.JobRegistration{Job: testJob("others", "service", count(others))})
			require.NoError(b, err)
			var states []*structs.AllocationState
			for _, a := range cp.Allocations() {
				states = append(states, &structs.AllocationState{ID: a.ID, ClientStatus: structs.ClientRunning})
			}
			require.NoError(b, cp.ForNode().UpdateAllocations(b.Context(), n.ID, states))
			i := 0
			for b.Loop() {
				id := fmt.Sprint("one-", i)
				i++
				_, err := cp.RegisterJob(&structs.JobRegistration{Job: testJob(id, "service")})
				require.NoError(b, err)
				_, err = cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: id, Purge: true})
				require.NoError(b, err)
			}
		})
	}
}
