package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/cgroups"
	cgroupv1 "github.com/opencontainers/cgroups/fs"
	cgroupv2 "github.com/opencontainers/cgroups/fs2"

	"github.com/wasmnode/wasmnode/workload"
)

// maxTasks is how many processes and threads an isolated process may be at once: more
// than programs have, and few enough for the node to stay usable.
const maxTasks = 4096

// minShares is the least that the kernel takes.
const minShares = 2

// limiter makes the cgroups that bound isolated processes. With cgroup v2 it is the one
// that a process has anyway; with v1 each controller has a hierarchy of its own.
type limiter struct {
	v1 map[string]string // directories of this runtime, by controller; nil: v2
}

// openLimiter removes what an earlier limiter of that name left, whose processes have
// been killed.
func openLimiter(name string) (*limiter, error) {
	l, err := newLimiter(name)
	if err != nil {
		return nil, err
	}
	return l, l.remove()
}

// newLimiter leaves what there is as it is.
func newLimiter(name string) (*limiter, error) {
	if cgroups.IsCgroup2UnifiedMode() {
		return &limiter{}, nil
	}
	l := &limiter{v1: map[string]string{}}
	for _, controller := range []string{"memory", "cpu", "cpuacct", "pids"} {
		top, err := cgroups.FindCgroupMountpoint("", controller)
		if err != nil {
			return nil, fmt.Errorf("cgroup controller %s is not mounted", controller)
		}
		l.v1[controller] = filepath.Join(top, "wasmnode", name)
	}
	return l, nil
}

// removeLeft removes the cgroups of supervisors that were killed: those that have none
// beside this runtime's own any more.
func (l *limiter) removeLeft(own cgroup) {
	for _, dir := range l.v1 {
		parent := filepath.Dir(dir)
		entries, _ := os.ReadDir(parent) // it is housekeeping: what cannot be read stays
		for _, e := range entries {
			_, err := os.Stat(filepath.Join(filepath.Dir(string(own)), e.Name()))
			if e.IsDir() && errors.Is(err, fs.ErrNotExist) {
				_ = cgroup(filepath.Join(parent, e.Name())).removeEmpty()
			}
		}
	}
}

// remove removes the runtime's cgroups; those of v2 are not ours.
func (l *limiter) remove() (err error) {
	for _, dir := range l.v1 {
		err = errors.Join(err, cgroup(dir).remove())
	}
	return err
}

// limits are the cgroups that bound one process with all that it starts.
type limits struct {
	manager cgroups.Manager
	v1      bool
}

// limit makes the cgroups of a process with that name; group is its v2 cgroup.
func (l *limiter) limit(name string, group cgroup, spec *workload.Spec) (*limits, error) {
	r := resources(spec)
	made, err := l.find(name, group, r)
	if err != nil {
		return nil, err
	}
	if err := made.apply(r); err != nil {
		_ = made.remove() // nothing ever ran in it
		return nil, err
	}
	return made, nil
}

// find returns the limits of a process, whose cgroups there may be or not.
func (l *limiter) find(name string, group cgroup, r *cgroups.Resources) (*limits, error) {
	var err error
	made := &limits{v1: l.v1 != nil}
	config := &cgroups.Cgroup{Resources: r}
	if made.v1 {
		dirs := map[string]string{}
		for controller, dir := range l.v1 {
			dirs[controller] = filepath.Join(dir, name)
		}
		made.manager, err = cgroupv1.NewManager(config, dirs)
	} else {
		made.manager, err = cgroupv2.NewManager(config, string(group))
	}
	return made, err
}

func (l *limits) apply(r *cgroups.Resources) error {
	if err := l.manager.Apply(-1); err != nil {
		return err
	}
	if l.v1 && !cgroups.PathExists(filepath.Join(l.manager.Path("memory"), "memory.memsw.limit_in_bytes")) {
		r.MemorySwap = 0 // this kernel does not count what is swapped out
	}
	return l.manager.Set(r)
}

// resources are a spec's limits in the library's words.
func resources(spec *workload.Spec) *cgroups.Resources {
	i := spec.Process.Isolated
	tasks := int64(maxTasks)
	// What is swapped out counts as memory too.
	r := &cgroups.Resources{Memory: int64(spec.MemoryMaxBytes), MemorySwap: int64(spec.MemoryMaxBytes), PidsLimit: &tasks}
	if i.MemoryReservedBytes < spec.MemoryMaxBytes {
		r.MemoryReservation = int64(i.MemoryReservedBytes)
	}
	if i.CPUShares > 0 {
		r.CpuShares = max(i.CPUShares, minShares)
		r.CpuWeight = cgroups.ConvertCPUSharesToCgroupV2Value(r.CpuShares)
	}
	return r
}

// enter bounds a process that has started nothing yet.
func (l *limits) enter(pid int) error {
	if err := l.manager.Apply(pid); err != nil {
		return noCgroup(err)
	}
	return nil
}

// remove removes the cgroups once their processes are gone; that of v2 is the tree's.
func (l *limits) remove() (err error) {
	if !l.v1 {
		return nil
	}
	for _, dir := range l.manager.GetPaths() {
		err = errors.Join(err, cgroup(dir).remove())
	}
	return err
}

// oomKilled reports whether something in the cgroups was killed for want of memory.
func (l *limits) oomKilled() bool {
	n, err := l.manager.OOMKillCount()
	return err == nil && n > 0
}

// bounded is the tree of an isolated process: what it uses is what the kernel counted.
type bounded struct {
	tree
	limits *limits
}

// end implements [tree].
func (b bounded) end() error { return errors.Join(b.tree.end(), b.limits.remove()) }

// cpu implements [tree].
func (b bounded) cpu() (time.Duration, error) {
	stats, err := b.limits.manager.Stats(&cgroups.StatsOptions{Controllers: cgroups.CPU})
	if err != nil {
		return 0, err
	}
	return time.Duration(stats.CpuStats.CpuUsage.TotalUsage), nil
}

// memory implements [tree]. What the kernel can take back at once, as it is in files
// too, does not count.
func (b bounded) memory() (now uint64, most *uint64, err error) {
	stats, err := b.limits.manager.Stats(&cgroups.StatsOptions{Controllers: cgroups.Memory})
	if err != nil {
		return 0, nil, err
	}
	m := stats.MemoryStats
	idle := m.Stats["inactive_file"]
	if b.limits.v1 {
		idle = m.Stats["total_inactive_file"]
	}
	if m.Usage.MaxUsage > 0 {
		// The kernel lends a process that it kills for want of memory a little more.
		own := min(m.Usage.MaxUsage, m.Usage.Limit)
		most = &own
	}
	return m.Usage.Usage - min(idle, m.Usage.Usage), most, nil
}
