package isolate

import (
	"os"
	"path"
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

// inProc tells which of these there are with this kernel, and whether they are directories.
func inProc() (isDir map[string]bool) {
	isDir = map[string]bool{}
	for _, names := range [][]string{maskedInProc, readOnlyInProc} {
		for _, name := range names {
			if info, err := os.Lstat(path.Join("/proc", name)); err == nil {
				isDir[name] = info.IsDir()
			}
		}
	}
	return isDir
}

// mountProc has the process mount the processes of its namespace at an open directory of its root: only
// one that is in the namespace can.
func (p *Prepared) mountProc(point int, isDir map[string]bool) error {
	c, mounting := &p.calls, explainFailed("mount /proc")
	var context, proc, tree int
	for _, fd := range []*int{&context, &proc, &tree} {
		var err error
		if *fd, err = p.placeholder(); err != nil {
			return err
		}
	}
	c.Add(mounting, unix.SYS_FSOPEN, c.Text("proc"), unix.FSOPEN_CLOEXEC)
	c.Reopen(mounting, context)
	c.Add(mounting, unix.SYS_FSCONFIG, uintptr(context), unix.FSCONFIG_CMD_CREATE)
	c.Add(mounting, unix.SYS_FSMOUNT, uintptr(context), unix.FSMOUNT_CLOEXEC, plainAttributes)
	c.Reopen(mounting, proc)
	attach(c, "/proc", proc, point, "")
	for _, name := range readOnlyInProc {
		if _, is := isDir[name]; is {
			makeReadOnly(c, proc, tree, name)
		}
	}
	for _, name := range maskedInProc {
		dir, is := isDir[name]
		if !is {
			continue
		}
		hides, err := p.keep(nothing(dir))
		if err != nil {
			return failed("hiding /proc/"+name, err)
		}
		attach(c, "/proc/"+name, hides, proc, name)
	}
	return nil
}

// placeholder is a descriptor for a file that the process is to open.
func (p *Prepared) placeholder() (int, error) {
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

// makeReadOnly adds what mounts a file or directory of a mounted file system over itself, to be read only.
func makeReadOnly(c *forkexec.Calls, of, tree int, name string) {
	failed := explainFailed("making /proc/" + name + " read-only")
	c.Add(failed, unix.SYS_OPEN_TREE, uintptr(of), c.Text(name), unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	c.Reopen(failed, tree)
	attributes := &unix.MountAttr{Attr_set: plainAttributes | unix.MOUNT_ATTR_RDONLY}
	c.Add(failed, unix.SYS_MOUNT_SETATTR, uintptr(tree), c.Text(""), unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, forkexec.Keep(c, attributes), unsafe.Sizeof(*attributes))
	attach(c, "/proc/"+name, tree, of, name)
}

// adjustOOMScore is [adjustOOMScore] of the process that is forked.
func (p *Prepared) adjustOOMScore(score int) error {
	if score == 0 {
		return nil
	}
	file, err := p.placeholder()
	if err != nil {
		return err
	}
	c, failed := &p.calls, explain("oom_score_adj")
	text := strconv.Itoa(score)
	c.Add(failed, unix.SYS_OPENAT, 0, c.Text("/proc/self/oom_score_adj"), unix.O_WRONLY|unix.O_CLOEXEC)
	c.Reopen(failed, file)
	c.Add(failed, unix.SYS_WRITE, uintptr(file), c.Text(text), uintptr(len(text)))
	return nil
}
