package isolate

import (
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/workload/process/forkexec"
)

// What of /proc tells about the node's hardware, kernel and keys more than a task needs, and what
// changes the node: the lists that container runtimes have.
var (
	maskedInProc = []string{
		"acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats",
	}
	readOnlyInProc = []string{"bus", "fs", "irq", "sys", "sysrq-trigger"}
)

// procMount is what a process mounts its own /proc with.
type procMount struct {
	context, top, tree int            // where it opens what it mounts
	readOnly           []string       // names in it
	masks              map[int]string // names in it, by what hides them
}

// newProc opens what hides those that there are with this kernel.
func (p *prepared) newProc() (*procMount, error) {
	m := &procMount{masks: map[int]string{}}
	for _, fd := range []*int{&m.context, &m.top, &m.tree} {
		var err error
		if *fd, err = p.placeholder(); err != nil {
			return nil, err
		}
	}
	var stat unix.Stat_t
	for _, name := range readOnlyInProc {
		if unix.Fstatat(p.proc, name, &stat, unix.AT_SYMLINK_NOFOLLOW) == nil {
			m.readOnly = append(m.readOnly, name)
		}
	}
	for _, name := range maskedInProc {
		if unix.Fstatat(p.proc, name, &stat, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		hides, err := p.keep(nothing(stat.Mode&unix.S_IFMT == unix.S_IFDIR))
		if err != nil {
			return nil, failed("hiding /proc/"+name, err)
		}
		m.masks[hides] = name
	}
	return m, nil
}

// mount adds what mounts the processes of a new process's namespace at an open directory of its root: only
// one that is in the namespace can.
func (m *procMount) mount(c *forkexec.Calls, point int) {
	mounting := explainFailed("mount /proc")
	c.Add(mounting, unix.SYS_FSOPEN, c.Text("proc"), unix.FSOPEN_CLOEXEC)
	c.Reopen(mounting, m.context)
	c.Add(mounting, unix.SYS_FSCONFIG, uintptr(m.context), unix.FSCONFIG_CMD_CREATE)
	c.Add(mounting, unix.SYS_FSMOUNT, uintptr(m.context), unix.FSMOUNT_CLOEXEC, plainAttributes)
	c.Reopen(mounting, m.top)
	attach(c, "/proc", m.top, point, "")
	for _, name := range m.readOnly {
		m.makeReadOnly(c, name)
	}
	for hides, name := range m.masks {
		attach(c, "/proc/"+name, hides, m.top, name)
	}
}

// placeholder is a descriptor for a file that the process is to open.
func (p *prepared) placeholder() (int, error) {
	fd, err := p.keep(unix.Open("/dev/null", unix.O_PATH|unix.O_CLOEXEC, 0))
	if err != nil {
		return -1, failed("/dev/null", err)
	}
	return fd, nil
}

// attach adds what mounts a detached tree at a path of a directory, or at an open one.
func attach(c *forkexec.Calls, what string, tree, dir int, name string) {
	flags := uintptr(unix.MOVE_MOUNT_F_EMPTY_PATH)
	if name == "" {
		flags |= unix.MOVE_MOUNT_T_EMPTY_PATH
	}
	c.Add(explainFailed("mount "+what), unix.SYS_MOVE_MOUNT, uintptr(tree), c.Text(""), uintptr(dir), c.Text(name), flags)
}

// makeReadOnly adds what mounts a file or directory over itself, to be read only.
func (m *procMount) makeReadOnly(c *forkexec.Calls, name string) {
	making := explainFailed("making /proc/" + name + " read-only")
	c.Add(making, unix.SYS_OPEN_TREE, uintptr(m.top), c.Text(name), unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	c.Reopen(making, m.tree)
	attributes := &unix.MountAttr{Attr_set: plainAttributes | unix.MOUNT_ATTR_RDONLY}
	c.Add(making, unix.SYS_MOUNT_SETATTR, uintptr(m.tree), c.Text(""), unix.AT_EMPTY_PATH|unix.AT_RECURSIVE,
		forkexec.Keep(c, attributes), unsafe.Sizeof(*attributes))
	attach(c, "/proc/"+name, m.tree, m.top, name)
}

// adjustOOMScore adds what [adjustOOMScore] does.
func (m *procMount) adjustOOMScore(c *forkexec.Calls, score int) {
	if score == 0 {
		return
	}
	adjusting, text := explain("oom_score_adj"), strconv.Itoa(score)
	c.Add(adjusting, unix.SYS_OPENAT, uintptr(m.top), c.Text("self/oom_score_adj"), unix.O_WRONLY|unix.O_CLOEXEC)
	c.Reopen(adjusting, m.tree)
	c.Add(adjusting, unix.SYS_WRITE, uintptr(m.tree), c.Text(text), uintptr(len(text)))
}
