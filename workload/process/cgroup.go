package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// endTimeout is how long killed processes may take to be gone: the kernel frees a
// fork bomb's memory in less.
const endTimeout = 10 * time.Second

// cgroup is a directory in the cgroup v2 hierarchy. It is used for what only a cgroup
// can do: to find all that a process started, and to kill it at once.
type cgroup string

// openCgroup makes an empty cgroup of that name, at the top of the hierarchy or, for
// those who may not, below this process's own. What ran in it before is killed. It is
// this process's until the file is closed.
func openCgroup(name string) (cgroup, *os.File, error) {
	parents, err := cgroupParents()
	if err != nil {
		return "", nil, err
	}
	var failed error
	for _, parent := range parents {
		g := cgroup(filepath.Join(parent, allCgroups, name))
		lock, err := g.open()
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		return g, lock, nil
	}
	return "", nil, failed
}

// allCgroups is the name of the cgroup that has those of all runtimes.
const allCgroups = "wasmnode"

// ParentCgroup is the cgroup, from the top of the v2 hierarchy, that those of all processes
// are in; empty: this process may make none there.
func ParentCgroup() string {
	parents, err := cgroupParents()
	if err != nil || unix.Access(parents[0], unix.W_OK) != nil {
		return ""
	}
	return allCgroups
}

// cgroupParents returns where cgroups may be made, the best place first.
func cgroupParents() ([]string, error) {
	mounts, err := procfs.GetMounts()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(mounts, func(m *procfs.MountInfo) bool { return m.FSType == "cgroup2" })
	if i < 0 {
		return nil, errors.New("no cgroup v2 hierarchy is mounted")
	}
	top := mounts[i].MountPoint
	self, err := procfs.Self()
	if err != nil {
		return nil, err
	}
	own, err := self.Cgroups()
	if err != nil {
		return nil, err
	}
	parents := []string{top}
	for _, g := range own {
		if g.HierarchyID == 0 && g.Path != "/" {
			parents = append(parents, filepath.Join(top, g.Path))
		}
	}
	return parents, nil
}

func (g cgroup) open() (*os.File, error) {
	lock, err := g.claim()
	if err != nil {
		return nil, err
	}
	if err = g.kill(); err == nil { // also: can it?
		err = g.clear()
	}
	if err != nil {
		_ = lock.Close() // nothing is written to it
		return nil, err
	}
	removeLeft(filepath.Dir(string(g)))
	return lock, nil
}

// claim makes the cgroup, unless it is there, and locks it. Another who takes it for one
// that was left, before it is locked, has it for a moment and removes it.
func (g cgroup) claim() (*os.File, error) {
	for deadline := time.Now().Add(endTimeout); ; time.Sleep(time.Millisecond) {
		if err := os.MkdirAll(string(g), 0o755); err != nil {
			return nil, err
		}
		lock, err := g.lock()
		taken := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EWOULDBLOCK)
		if !taken || time.Now().After(deadline) {
			return lock, err
		}
	}
}

// lock makes the cgroup this process's until the file is closed, also by the process's
// end. It is [fs.ErrNotExist] when the cgroup was removed meanwhile.
func (g cgroup) lock() (*os.File, error) {
	f, err := os.Open(string(g))
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		err = g.isStill(f)
	}
	if err != nil {
		_ = f.Close() // nothing is written to it
		return nil, err
	}
	return f, nil
}

// isStill returns nil if the file is the cgroup, and [fs.ErrNotExist] if that was removed, also if it was made again: the
// lock is on another then.
func (g cgroup) isStill(f *os.File) error {
	open, err := f.Stat()
	if err != nil {
		return err
	}
	now, err := os.Stat(string(g))
	if err == nil && !os.SameFile(open, now) {
		err = fs.ErrNotExist
	}
	return err
}

// removeLeft removes what supervisors left behind that were killed: the cgroups that
// are not locked, as far as nothing runs in them.
func removeLeft(parent string) {
	entries, _ := os.ReadDir(parent) // it is housekeeping: what cannot be read stays
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		g := cgroup(filepath.Join(parent, e.Name()))
		if lock, err := g.lock(); err == nil {
			_ = g.removeEmpty()
			_ = lock.Close()
		}
	}
}

// child makes a cgroup in this one.
func (g cgroup) child(name string) (cgroup, error) {
	c := cgroup(filepath.Join(string(g), name))
	return c, makeGroup(string(c))
}

// makeGroup makes a cgroup, unless it is there, and those that it is in.
func makeGroup(dir string) error {
	if err := os.Mkdir(dir, 0o755); err == nil {
		return nil
	}
	return os.MkdirAll(dir, 0o755)
}

// kill kills all processes in the cgroup and below, also those that are being forked.
func (g cgroup) kill() error {
	return writeFile(filepath.Join(string(g), "cgroup.kill"), "1")
}

// remove removes the cgroup and those below it once the killed processes are gone.
func (g cgroup) remove() error {
	pause, deadline := time.Millisecond, time.Now().Add(endTimeout)
	for {
		err := g.removeEmpty()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pause) // most trees are gone in the first
		pause = min(2*pause, 100*time.Millisecond)
	}
}

// clear removes the cgroups below this one once the killed processes are gone.
func (g cgroup) clear() error {
	entries, err := os.ReadDir(string(g))
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, cgroup(filepath.Join(string(g), e.Name())).remove())
		}
	}
	return err
}

func (g cgroup) removeEmpty() error {
	if os.Remove(string(g)) == nil { // nearly all have none below them
		return nil
	}
	var dirs []string
	err := filepath.WalkDir(string(g), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, dir := range slices.Backward(dirs) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// processes returns the processes in the cgroup and below.
func (g cgroup) processes() (pids []int, err error) {
	err = filepath.WalkDir(string(g), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(b)) {
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids, err
}

// cpu returns the processor time of all that ever ran in the cgroup and below.
func (g cgroup) cpu() (cpuTime, error) {
	path := filepath.Join(string(g), "cpu.stat")
	text, err := os.ReadFile(path) // once, so that the three are of one moment
	if err != nil {
		return cpuTime{}, err
	}
	return readTimes(time.Microsecond, func(name string) (uint64, error) {
		return fieldOf(path, string(text), name)
	}, "usage_usec", "user_usec", "system_usec")
}

// readTimes reads the three times, under their names, in that unit.
func readTimes(unit time.Duration, read func(name string) (uint64, error), total, user, system string) (t cpuTime, err error) {
	for name, into := range map[string]*time.Duration{total: &t.total, user: &t.user, system: &t.system} {
		n, one := read(name)
		*into = time.Duration(n) * unit
		err = errors.Join(err, one)
	}
	return t, err
}
