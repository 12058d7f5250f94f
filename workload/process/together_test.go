package process_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/workload"
)

// beside is a script in another root that stands beside a workload.
func (w *world) beside(own *workload.Spec, text string) *workload.Spec {
	w.t.Helper()
	spec := w.isolated(text)
	spec.Beside = own.ID
	return spec
}

// left is what an isolated script may use of its task's memory when another holds 40 MB.
const left = 64<<20 - 40_000_000

func TestIsolatedProcessesOfATaskAreBoundedTogether(t *testing.T) {
	w := newWorld(t)
	first := w.isolated(`head -c 40000000 /dev/zero >/dev/shm/x; echo ready; exec sleep 1000`)
	first.Process.Isolated.CPUShares = 300
	require.NoError(t, w.s.Start(w.context(), first))
	w.ready(first)
	pid := w.pid(first)
	require.Equal(t, "4096", kernels(t, pid, "pids", "../pids.max", "../pids.max"))
	shares := "300"
	if _, v1 := hierarchy(t, "cpu"); !v1 {
		shares = "29"
	}
	require.Equal(t, shares, kernels(t, pid, "cpu", "../cpu.shares", "../cpu.weight"))

	hog := w.beside(first, `exec tail /dev/zero`)
	result, _ := w.finish(hog)
	require.True(t, result.OOMKilled)
	require.Less(t, w.peak(hog), uint64(left), "what is beside a workload has what that leaves")
	alone := w.isolated(`exec tail /dev/zero`)
	result, _ = w.finish(alone)
	require.True(t, result.OOMKilled)
	require.Greater(t, w.peak(alone), uint64(left), "another task's is not bounded with it")
	again := w.beside(first, `exit 3`)
	result, _ = w.finish(again)
	require.Equal(t, 3, result.ExitCode)

	require.NoError(t, w.s.Stop(w.context(), first.ID, "SIGKILL", 0))
	require.False(t, w.wait(first).OOMKilled, "what was killed is told apart")
	require.Empty(t, w.s.Groups())
}

// peak is the most memory that a workload used.
func (w *world) peak(spec *workload.Spec) uint64 {
	w.t.Helper()
	stats, err := w.s.Stats(w.context(), spec.ID)
	require.NoError(w.t, err)
	if stats.MemoryMaxBytes == nil {
		w.t.Skip("this kernel does not tell the most memory that was used")
	}
	return *stats.MemoryMaxBytes
}

func TestWhatStandsBesideAWorkloadBeforeItIsBoundedWithIt(t *testing.T) {
	w := newWorld(t)
	own := w.isolated(`exec tail /dev/zero`)
	early := w.beside(own, `head -c 40000000 /dev/zero >/dev/shm/x; echo ready; exec sleep 1000`)
	require.NoError(t, w.s.Start(w.context(), early))
	w.ready(early)
	never := w.beside(own, ``)
	never.Process.Command = "/not/there"
	require.Error(t, w.s.Start(w.context(), never), "what does not start leaves the others bounded")
	result, _ := w.finish(own)
	require.True(t, result.OOMKilled)
	require.Less(t, w.peak(own), uint64(left))
	require.NoError(t, w.s.Destroy(w.context(), early.ID))
	require.Empty(t, w.s.Groups())
}

// TestAProgramAndProcessesMayTakeMemoryAtTheSameTime has many do what one at a time does elsewhere.
func TestAProgramAndProcessesMayTakeMemoryAtTheSameTime(t *testing.T) {
	w := newWorld(t)
	own := w.isolated("")
	take, leave := w.s.ShareMemory(own.ID)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for size := range 50 {
				take(uint64(size*i) << 16)
			}
		})
		spec := w.beside(own, "true")
		all.Go(func() {
			if err := w.s.Start(w.context(), spec); err != nil {
				t.Error(err)
				return
			}
			if _, err := w.s.Wait(w.context(), spec.ID); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.NotEmpty(t, w.s.Groups(), "the program is there")
	require.True(t, take(0))
	leave()
	require.Empty(t, w.s.Groups())
}
