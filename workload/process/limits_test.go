package process_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// kernels returns a limit that the kernel has for this process's child of that script.
func kernels(t *testing.T, pid, controller, v1File, v2File string) string {
	t.Helper()
	number, err := strconv.Atoi(pid)
	require.NoError(t, err)
	proc, err := procfs.NewProc(number)
	require.NoError(t, err)
	own, err := proc.Cgroups()
	require.NoError(t, err)
	top, v1 := hierarchy(t, controller)
	file := v2File
	if v1 {
		file = v1File
	}
	for _, g := range own {
		if v1 == slices.Contains(g.Controllers, controller) && v1 == (g.HierarchyID != 0) {
			b, err := os.ReadFile(filepath.Join(top, g.Path, file))
			require.NoError(t, err)
			return strings.TrimSpace(string(b))
		}
	}
	require.Fail(t, "process "+pid+" has no cgroup of "+controller)
	return ""
}

// hierarchy returns where a controller's cgroups are.
func hierarchy(t *testing.T, controller string) (top string, v1 bool) {
	t.Helper()
	mounts, err := procfs.GetMounts()
	require.NoError(t, err)
	for _, m := range mounts {
		if _, has := m.SuperOptions[controller]; has && m.FSType == "cgroup" {
			return m.MountPoint, true
		}
		if m.FSType == "cgroup2" {
			top = m.MountPoint
		}
	}
	return top, false
}

func TestLimitsAreTheKernels(t *testing.T) {
	w := newWorld(t)
	spec := w.isolated(`echo ready; exec sleep 1000`)
	spec.Process.Isolated.CPUShares, spec.Process.Isolated.MemoryReservedBytes = 300, 32<<20
	require.NoError(t, w.s.Start(w.context(), spec))
	w.ready(spec)
	pid := w.pid(spec)
	require.Equal(t, "67108864", kernels(t, pid, "memory", "memory.limit_in_bytes", "memory.max"))
	require.Equal(t, "33554432", kernels(t, pid, "memory", "memory.soft_limit_in_bytes", "memory.low"))
	require.Equal(t, "4096", kernels(t, pid, "pids", "pids.max", "pids.max"))
	want := "300"
	if _, v1 := hierarchy(t, "cpu"); !v1 {
		want = "29"
	}
	require.Equal(t, want, kernels(t, pid, "cpu", "cpu.shares", "cpu.weight"))
}

func TestAMemoryHogIsKilledAlone(t *testing.T) {
	w := newWorld(t)
	other := w.isolated(`echo ready; exec sleep 1000`)
	require.NoError(t, w.s.Start(w.context(), other))
	w.ready(other)
	for name, script := range map[string]string{
		"the process itself":    `exec tail /dev/zero`,
		"one that it waits for": `tail /dev/zero; exit $?`,
		"shared memory":         `exec cat /dev/zero >/dev/shm/x`,
	} {
		t.Run(name, func(t *testing.T) {
			result, _ := w.finish(w.isolated(script))
			require.True(t, result.OOMKilled)
			require.Equal(t, 137, result.ExitCode)
		})
	}
	status, err := w.s.Inspect(w.context(), other.ID)
	require.NoError(t, err)
	require.Nil(t, status.Exit)

	result, _ := w.finish(w.isolated(`kill -KILL $$; exit 137`))
	require.Equal(t, &structs.ExitResult{ExitCode: 137}, result, "not everything that is killed had too little memory")
}

func TestATaskThatSucceedsHadEnoughMemory(t *testing.T) {
	w := newWorld(t)
	result, out := w.finish(w.isolated(`tail /dev/zero; echo lost $?`))
	require.Equal(t, "lost 137", out, "one of its processes was killed for memory")
	require.Equal(t, &structs.ExitResult{}, result)
}

func TestAnIsolatedProcessNeedsLittleMemory(t *testing.T) {
	w := newWorld(t)
	spec := w.isolated(`exit 3`)
	spec.MemoryMaxBytes = leastMemory
	result, _ := w.finish(spec)
	require.Equal(t, &structs.ExitResult{ExitCode: 3}, result)
}

func TestAnIsolatedForkBombIsBounded(t *testing.T) {
	w := newWorld(t)
	spec := w.isolated(`
		trap 'echo $i; sleep 1000' EXIT
		mkfifo /local/never
		i=0; while :; do read x </local/never & i=$((i+1)); done 2>/dev/null`)
	spec.MemoryMaxBytes = 2 << 30
	require.NoError(t, w.s.Start(w.context(), spec))
	require.Equal(t, "4095", w.ready(spec), "and the one that says it")
	began := time.Now()
	require.NoError(t, w.s.Stop(w.context(), spec.ID, "SIGKILL", 0))
	require.Less(t, time.Since(began), testTimeout)
	require.Zero(t, w.left())
}

func TestStatsAreTheCgroups(t *testing.T) {
	w := newWorld(t)
	spec := w.isolated(`head -c 20000000 /dev/zero >/dev/shm/x; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo ready; exec sleep 1000`)
	require.NoError(t, w.s.Start(w.context(), spec))
	w.ready(spec)
	stats, err := w.s.Stats(w.context(), spec.ID)
	require.NoError(t, err)
	require.Greater(t, *stats.MemoryBytes, uint64(20_000_000))
	require.Less(t, *stats.MemoryBytes, uint64(40_000_000))
	require.GreaterOrEqual(t, *stats.MemoryMaxBytes, *stats.MemoryBytes)
	require.Greater(t, *stats.CPUTotal, 10*time.Millisecond)
	require.NoError(t, w.s.Stop(w.context(), spec.ID, "SIGKILL", 0))
	after, err := w.s.Stats(w.context(), spec.ID)
	require.NoError(t, err)
	require.GreaterOrEqual(t, *after.CPUTotal, *stats.CPUTotal)
	require.GreaterOrEqual(t, *after.MemoryMaxBytes, *stats.MemoryMaxBytes)
}
