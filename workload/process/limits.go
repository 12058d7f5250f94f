package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/workload"
)

// maxTasks is how many processes and threads an isolated process may be at once: more
// than programs have, and few enough for the node to stay usable.
const maxTasks = 4096

// Shares of processor time are the kernel's with cgroup v1. Those of v2 are weights,
// whose default is another.
const (
	minShares, maxShares, defaultShares = 2, 262144, 1024
	minWeight, maxWeight, defaultWeight = 1, 10000, 100
)

// The controllers that bound a process, and with v1 the one that counts besides.
var (
	controllersV2 = []string{"cpu", "memory", "pids"}
	controllersV1 = append([]string{"cpuacct"}, controllersV2...)
)

// limiter makes the cgroups that bound isolated processes. With cgroup v2 it is the one
// that a process has anyway; with v1 each controller has a hierarchy of its own.
type limiter struct {
	v1 map[string]string // directories of this runtime, by controller; nil: v2
	v2 string            // where the hierarchy is mounted; empty: v1

	enabling sync.Mutex // the kernel says that controllers are enabled before their files are there
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
	mounts, err := procfs.GetMounts()
	if err != nil {
		return nil, err
	}
	return limiterOn(mounts, name)
}

// limiterOn uses v2 where it has the controllers: a controller is in one hierarchy only.
func limiterOn(mounts []*procfs.MountInfo, name string) (*limiter, error) {
	for _, m := range mounts {
		if m.FSType == "cgroup2" && hasControllers(m.MountPoint) {
			return &limiter{v2: m.MountPoint}, nil
		}
	}
	l := &limiter{v1: map[string]string{}}
	for _, controller := range controllersV1 {
		i := slices.IndexFunc(mounts, func(m *procfs.MountInfo) bool {
			_, has := m.SuperOptions[controller]
			return has && m.FSType == "cgroup"
		})
		if i < 0 {
			return nil, fmt.Errorf("cgroup controller %s is not mounted", controller)
		}
		l.v1[controller] = filepath.Join(mounts[i].MountPoint, "wasmnode", name)
	}
	return l, nil
}

// hasControllers reports whether a hierarchy of v2 has all that bound a process.
func hasControllers(top string) bool {
	has, err := os.ReadFile(filepath.Join(top, "cgroup.controllers"))
	return err == nil && !slices.ContainsFunc(controllersV2, func(c string) bool {
		return !slices.Contains(strings.Fields(string(has)), c)
	})
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
	v1 map[string]string // by controller; nil: v2
	v2 cgroup
}

// limit makes the cgroups of a process with that name; group is its v2 cgroup.
func (l *limiter) limit(name string, group cgroup, spec *workload.Spec) (*limits, error) {
	made := l.find(name, group)
	if err := l.make(made, spec); err != nil {
		_ = made.remove() // nothing ever ran in it
		return nil, err
	}
	return made, nil
}

// find returns the limits of a process, whose cgroups there may be or not.
func (l *limiter) find(name string, group cgroup) *limits {
	if l.v1 == nil {
		return &limits{v2: group}
	}
	found := &limits{v1: map[string]string{}}
	for controller, dir := range l.v1 {
		found.v1[controller] = filepath.Join(dir, name)
	}
	return found
}

func (l *limiter) make(made *limits, spec *workload.Spec) error {
	for _, dir := range made.v1 {
		if err := makeGroup(dir); err != nil {
			return err
		}
	}
	if made.v1 == nil {
		if err := l.enableControllers(filepath.Dir(string(made.v2))); err != nil {
			return err
		}
	}
	for _, s := range settings(spec, made.v1 != nil) {
		err := writeFile(made.file(s.controller, s.file), s.value)
		if err != nil && (!s.optional || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}

// enableControllers has the cgroups in a directory bounded, which every cgroup from the
// top of the hierarchy on has to allow.
func (l *limiter) enableControllers(dir string) error {
	l.enabling.Lock()
	defer l.enabling.Unlock()
	top := l.v2
	rest, err := filepath.Rel(top, dir)
	if err != nil || !filepath.IsLocal(rest) {
		return fmt.Errorf("cgroup %s is not in the hierarchy at %s", dir, top)
	}
	for _, name := range append([]string{"."}, strings.Split(rest, "/")...) {
		top = filepath.Join(top, name)
		file := filepath.Join(top, "cgroup.subtree_control")
		has, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, controller := range controllersV2 {
			if slices.Contains(strings.Fields(string(has)), controller) {
				continue
			}
			if err := writeFile(file, "+"+controller); err != nil {
				return fmt.Errorf("cgroup controller %s: %w", controller, err)
			}
		}
	}
	return nil
}

// setting is what is written to a file of a controller.
type setting struct {
	controller, file, value string
	optional                bool // a kernel that does not count swapped memory has no such file
}

// settings are the limits of a spec. What is swapped out counts as memory too: v1 bounds
// the sum, v2 the swapped part.
func settings(spec *workload.Spec, v1 bool) []setting {
	i := spec.Process.Isolated
	memory := strconv.FormatUint(spec.MemoryMaxBytes, 10)
	set := []setting{{"pids", "pids.max", strconv.Itoa(maxTasks), false}}
	reservation := "memory.low"
	if v1 {
		reservation = "memory.soft_limit_in_bytes"
		set = append(set, setting{"memory", "memory.use_hierarchy", "1", true}) // also for what is below, as in newer kernels anyway
		set = append(set, setting{"memory", "memory.limit_in_bytes", memory, false}, setting{"memory", "memory.memsw.limit_in_bytes", memory, true})
	} else {
		set = append(set, setting{"memory", "memory.max", memory, false}, setting{"memory", "memory.swap.max", "0", true})
	}
	if i.MemoryReservedBytes > 0 && i.MemoryReservedBytes < spec.MemoryMaxBytes {
		set = append(set, setting{"memory", reservation, strconv.FormatUint(i.MemoryReservedBytes, 10), false})
	}
	if i.CPUShares == 0 {
		return set
	}
	shares := min(max(i.CPUShares, minShares), maxShares)
	if v1 {
		return append(set, setting{"cpu", "cpu.shares", strconv.FormatUint(shares, 10), false})
	}
	weight := min(max(shares*defaultWeight/defaultShares, minWeight), maxWeight)
	return append(set, setting{"cpu", "cpu.weight", strconv.FormatUint(weight, 10), false})
}

// canShrink reports whether all in the cgroups can be left so much memory without one of them
// being killed. With v1 the kernel refuses less than they use.
func (l *limits) canShrink(bytes uint64) bool {
	if l.v1 != nil {
		return true
	}
	used, err := count(l.file("memory", "memory.current"))
	for _, of := range []string{"inactive_file", "active_file"} { // which the kernel can take back
		if unused, failed := field(l.file("memory", "memory.stat"), of); failed == nil {
			used -= min(unused, used)
		}
	}
	return err == nil && used <= bytes
}

// setMemory changes how much memory all in the cgroups may use; up: it is more than before. With
// v1 the sum with what is swapped out is never below it.
func (l *limits) setMemory(bytes uint64, up bool) error {
	value := strconv.FormatUint(bytes, 10)
	if l.v1 == nil {
		return writeFile(l.file("memory", "memory.max"), value)
	}
	files := []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}
	if up {
		slices.Reverse(files)
	}
	for _, file := range files {
		// A kernel that does not count swapped memory has no such file.
		if err := writeFile(l.file("memory", file), value); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// writeFile writes to a file of the kernel's, which it makes itself. Nothing has to be waited for there, as
// package os would.
func writeFile(path, value string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }() // what was written was written
	for {
		_, err := unix.Write(fd, []byte(value))
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EINTR):
			return &os.PathError{Op: "write", Path: path, Err: err}
		}
	}
}

// file returns the path of a file of a controller.
func (l *limits) file(controller, name string) string {
	if l.v1 == nil {
		return filepath.Join(string(l.v2), name)
	}
	return filepath.Join(l.v1[controller], name)
}

// enter bounds a process that has started nothing yet. It is in its cgroup of v2 from
// its beginning.
func (l *limits) enter(pid int) error {
	for controller := range l.v1 {
		if err := writeFile(l.file(controller, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return noCgroup(err)
		}
	}
	return nil
}

// doors are descriptors of files that bound a process which writes 0 to each of them. The caller closes
// them, also on an error.
func (l *limits) doors() (files []int, err error) {
	for controller := range l.v1 {
		fd, err := unix.Open(l.file(controller, "cgroup.procs"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return files, noCgroup(err)
		}
		files = append(files, fd)
	}
	return files, nil
}

// remove removes the cgroups once their processes are gone; that of v2 is the tree's.
func (l *limits) remove() (err error) {
	for _, dir := range l.v1 {
		err = errors.Join(err, cgroup(dir).remove())
	}
	return err
}

// oomKilled reports whether something in the cgroups was killed for want of memory.
func (l *limits) oomKilled() bool {
	file := "memory.events"
	if l.v1 != nil {
		file = "memory.oom_control"
	}
	n, err := field(l.file("memory", file), "oom_kill")
	return err == nil && n > 0
}

// cpu returns the processor time of all that ever ran in the cgroups.
func (l *limits) cpu() (cpuTime, error) {
	if l.v1 == nil {
		return l.v2.cpu()
	}
	return readTimes(time.Nanosecond, func(name string) (uint64, error) {
		return count(l.file("cpuacct", name))
	}, "cpuacct.usage", "cpuacct.usage_user", "cpuacct.usage_sys")
}

// memory returns the memory in use, and the most that ever was; nil: the kernel does not
// count it. What the kernel can take back at once, as it is in files too, is not in use.
func (l *limits) memory() (now uint64, most *uint64, err error) {
	usage, peak, limit, idle := "memory.current", "memory.peak", "memory.max", "inactive_file"
	if l.v1 != nil {
		usage, peak, limit, idle = "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file"
	}
	used, err := count(l.file("memory", usage))
	if err != nil {
		return 0, nil, err
	}
	unused, err := field(l.file("memory", "memory.stat"), idle)
	if err != nil {
		return 0, nil, err
	}
	bound, err := count(l.file("memory", limit))
	if err != nil {
		return 0, nil, err
	}
	if n, err := count(l.file("memory", peak)); err == nil {
		// The kernel lets a process that it kills for want of memory exceed its limit a little.
		n = min(n, bound)
		most = &n
	}
	return used - min(unused, used), most, nil
}

// count reads a file that has one number.
func count(path string) (uint64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
}

// field reads a number from a file of lines with a name and a number each.
func field(path, name string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return fieldOf(path, string(text), name)
}

// fieldOf reads it from the text of that file.
func fieldOf(path, text, name string) (uint64, error) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseUint(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s: no %s", path, name)
}

// bounded is the tree of an isolated process: what it uses is what the kernel counted.
type bounded struct {
	tree
	limits *limits
}

// end implements [tree].
func (b bounded) end() error { return errors.Join(b.tree.end(), b.limits.remove()) }

// cpu implements [tree].
func (b bounded) cpu() (cpuTime, error) { return b.limits.cpu() }

// memory implements [tree].
func (b bounded) memory() (now uint64, most *uint64, err error) { return b.limits.memory() }
