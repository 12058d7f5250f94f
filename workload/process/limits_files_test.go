package process

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/workload"
)

func bounds(memory, reserved, shares uint64) *workload.Spec {
	return &workload.Spec{MemoryMaxBytes: memory, Process: &workload.Process{
		Isolated: &workload.Isolated{MemoryReservedBytes: reserved, CPUShares: shares},
	}}
}

func TestLimitsAreWrittenToTheFilesOfTheirHierarchy(t *testing.T) {
	const memory = 64 << 20
	for name, c := range map[string]struct {
		spec   *workload.Spec
		v1, v2 map[string]string // besides what every process has
	}{
		"memory alone": {bounds(memory, 0, 0), nil, nil},
		"reserved memory": {
			bounds(memory, 32<<20, 0),
			map[string]string{"memory.soft_limit_in_bytes": "33554432"}, map[string]string{"memory.low": "33554432"},
		},
		"all memory is reserved":            {bounds(memory, memory, 0), nil, nil},
		"shares":                            {bounds(memory, 0, 300), map[string]string{"cpu.shares": "300"}, map[string]string{"cpu.weight": "29"}},
		"the default shares":                {bounds(memory, 0, 1024), map[string]string{"cpu.shares": "1024"}, map[string]string{"cpu.weight": "100"}},
		"fewer shares than the kernel has":  {bounds(memory, 0, 1), map[string]string{"cpu.shares": "2"}, map[string]string{"cpu.weight": "1"}},
		"more shares than the kernel takes": {bounds(memory, 0, 1<<40), map[string]string{"cpu.shares": "262144"}, map[string]string{"cpu.weight": "10000"}},
	} {
		t.Run(name, func(t *testing.T) {
			v1 := map[string]string{"pids.max": "4096", "memory.use_hierarchy": "1", "memory.limit_in_bytes": "67108864", "memory.memsw.limit_in_bytes": "67108864"}
			v2 := map[string]string{"pids.max": "4096", "memory.max": "67108864", "memory.swap.max": "0"}
			for want, more := range map[*map[string]string]map[string]string{&v1: c.v1, &v2: c.v2} {
				for file, value := range more {
					(*want)[file] = value
				}
			}
			require.Equal(t, v1, written(settings(c.spec, true)))
			require.Equal(t, v2, written(settings(c.spec, false)))
		})
	}
}

func written(set []setting) map[string]string {
	files := map[string]string{}
	for _, s := range set {
		files[s.file] = s.value
	}
	return files
}

// files makes files in a directory, as the kernel does.
func files(t *testing.T, dir string, content map[string]string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for name, text := range content {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(b)
}

func TestTheHierarchyWithTheControllersIsUsed(t *testing.T) {
	full := files(t, t.TempDir(), map[string]string{"cgroup.controllers": "cpuset cpu io memory pids\n"})
	empty := files(t, t.TempDir(), map[string]string{"cgroup.controllers": "\n"})
	v2 := func(at string) *procfs.MountInfo { return &procfs.MountInfo{FSType: "cgroup2", MountPoint: at} }
	v1 := func(at string, options ...string) *procfs.MountInfo {
		m := &procfs.MountInfo{FSType: "cgroup", MountPoint: at, SuperOptions: map[string]string{"rw": ""}}
		for _, o := range options {
			m.SuperOptions[o] = ""
		}
		return m
	}
	for name, c := range map[string]struct {
		mounts []*procfs.MountInfo
		want   *limiter
		fails  string
	}{
		"v2":          {[]*procfs.MountInfo{v2(full)}, &limiter{v2: full}, ""},
		"v2 and some": {[]*procfs.MountInfo{v1("/a", "cpuacct"), v2(full)}, &limiter{v2: full}, ""},
		"v1": {[]*procfs.MountInfo{v1("/cpu", "cpu", "cpuacct"), v1("/memory", "memory"), v1("/pids", "pids"), v2(empty)}, &limiter{v1: map[string]string{
			"cpu": "/cpu/wasmnode/n", "cpuacct": "/cpu/wasmnode/n", "memory": "/memory/wasmnode/n", "pids": "/pids/wasmnode/n",
		}}, ""},
		"v1 without memory": {[]*procfs.MountInfo{v1("/cpu", "cpu", "cpuacct"), v1("/pids", "pids")}, nil, "cgroup controller memory is not mounted"},
		"none":              {nil, nil, "is not mounted"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := limiterOn(c.mounts, "n")
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, l)
		})
	}
}

func TestEveryCgroupAboveHasToAllowTheControllers(t *testing.T) {
	const control = "cgroup.subtree_control"
	top := files(t, t.TempDir(), map[string]string{control: "cpu memory pids"})
	middle := files(t, filepath.Join(top, "wasmnode"), map[string]string{control: "cpu memory"})
	parent := files(t, filepath.Join(middle, "name"), map[string]string{control: "memory pids"})
	group := files(t, filepath.Join(parent, "1"), map[string]string{"memory.max": "max", "pids.max": "max"})
	l := &limiter{v2: top}
	made, err := l.limit("1", cgroup(group), bounds(64<<20, 0, 0))
	require.NoError(t, err, "a kernel that does not count swapped memory has no memory.swap.max")
	require.Equal(t, "cpu memory pids", read(t, top, control))
	require.Contains(t, read(t, middle, control), "+pids")
	require.Contains(t, read(t, parent, control), "+cpu")
	require.Contains(t, read(t, group, "memory.max"), "67108864")
	require.NoError(t, made.enter(1), "it began there")
	require.NoError(t, made.remove(), "the tree removes it")
	require.DirExists(t, group)

	_, err = l.limit("1", cgroup(group), bounds(64<<20, 1<<20, 0))
	require.ErrorIs(t, err, os.ErrNotExist, "a limit that the kernel cannot keep")
	_, err = l.limit("1", cgroup(t.TempDir()), bounds(64<<20, 0, 0))
	require.ErrorContains(t, err, "is not in the hierarchy at "+top)
}

func TestUsageIsReadFromACgroupOfV2(t *testing.T) {
	l := &limits{v2: cgroup(files(t, t.TempDir(), map[string]string{
		"cpu.stat":       "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\n",
		"memory.current": "5000\n", "memory.peak": "9000\n", "memory.max": "8000\n",
		"memory.stat":   "anon 3000\ninactive_file 2000\n",
		"memory.events": "low 0\nhigh 0\nmax 1\noom 1\noom_kill 1\n",
	}))}
	cpu, err := l.cpu()
	require.NoError(t, err)
	require.Equal(t, cpuTime{1500 * time.Microsecond, time.Millisecond, 500 * time.Microsecond}, cpu)
	now, most, err := l.memory()
	require.NoError(t, err)
	require.Equal(t, uint64(3000), now)
	require.Equal(t, uint64(8000), *most)
	require.True(t, l.oomKilled())

	require.NoError(t, os.Remove(l.file("memory", "memory.peak")))
	files(t, string(l.v2), map[string]string{"memory.events": "oom 1\noom_kill 0\n"})
	_, most, err = l.memory()
	require.NoError(t, err)
	require.Nil(t, most, "an older kernel does not count it")
	require.False(t, l.oomKilled())
}
