package host

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/grantsyntax"
	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/workload"
)

// The bounds of what a driver mounts in a process's root: the closure of a large package of
// Nix has some hundred directories.
const (
	maxMounts    = 1024
	maxMountPath = 4095 // the system's own, without the zero at the end
)

// fixedInRoot is what the node itself makes in every root.
var fixedInRoot = []string{"/dev", "/proc", "/sys"}

// resolverFiles are what an image cannot know: how names are found where it runs.
var resolverFiles = []string{"/etc/hosts", "/etc/resolv.conf"}

// rootMaker gives an isolated process the root and the mounts that its driver asks for.
type rootMaker struct {
	plugin string
	grant  ProcessGrant
	task   *wasmnodev1.TaskConfig
}

// setRoot is where a driver's root and mounts are judged. What they lead to by links is judged
// when they are opened.
func (h *Host) setRoot(p *workload.Process, r *wasmnodev1.ProcessStartRequest, m rootMaker) (err error) {
	switch {
	case r.Root == "" && len(r.Mounts) == 0 && !r.ReadOnlyRoot:
		return nil
	case p.Isolated == nil:
		return abi.NewError(abi.InvalidArgument, "a root and mounts are for processes with full isolation: others have the node's")
	case len(r.Mounts) > maxMounts:
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("more than %d mounts", maxMounts))
	case r.Root == "" && r.ReadOnlyRoot:
		return abi.NewError(abi.InvalidArgument, "a root that can only be read goes with a root")
	case !slices.Contains(m.grant.Commands, grantsyntax.Any):
		// What a path is there, the driver decides.
		what := fmt.Sprintf("command %s, which may be any program in a root or with mounts of the driver's,", plaintext.Line(p.Command, 256))
		return notGranted(what, processFix(m.plugin, `commands = ["*"] isolation = "full"`))
	}
	i := p.Isolated
	if r.Root != "" {
		image, err := m.source("root", r.Root, true)
		if err != nil {
			return err
		}
		i.Image, i.ReadOnlyRoot = &image, r.ReadOnlyRoot
		i.Mounts = addTaskMounts(h.imageMounts(m.task.GetDirectories()), m.task)
		i.Owned = slices.DeleteFunc(i.Owned, func(name string) bool { return name == "/" })
	}
	i.Mounts, err = m.addMounts(i.Mounts, r.Mounts)
	return err
}

// imageMounts is what a task has in an image of its directory and of the node's files.
func (h *Host) imageMounts(dirs *wasmnodev1.TaskDirectories) (mounts []workload.Mount) {
	for target, source := range map[string]string{
		localInRoot: dirs.GetLocal(), secretsInRoot: dirs.GetSecrets(), tmpInRoot: filepath.Join(dirs.GetTask(), tmpInRoot),
	} {
		if info, err := os.Lstat(source); err == nil && info.IsDir() {
			mounts = append(mounts, workload.Mount{GuestPath: target, HostPath: source, Within: dirs.GetTask()})
		}
	}
	for _, file := range resolverFiles {
		for source, target := range h.cfg.Chroot {
			found := filepath.Join(source, strings.TrimPrefix(file, path.Clean(target)))
			if info, err := os.Stat(found); within(file, path.Clean(target)) && err == nil && info.Mode().IsRegular() {
				mounts = append(mounts, workload.Mount{GuestPath: file, HostPath: found, ReadOnly: true})
				break
			}
		}
	}
	return mounts
}

// addMounts adds what a driver asks for to what the task has, which it replaces unless the
// job has asked for that.
func (m rootMaker) addMounts(mounts []workload.Mount, asked []*wasmnodev1.ProcessMount) ([]workload.Mount, error) {
	taken := map[string]bool{}
	for _, job := range m.task.GetMounts() {
		taken[mountOf(job).GuestPath] = true
	}
	for _, a := range asked {
		mount, err := m.mount(a)
		if err != nil {
			return nil, err
		}
		if taken[mount.GuestPath] {
			return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("two mounts at %s", plaintext.Line(mount.GuestPath, 256)))
		}
		taken[mount.GuestPath] = true
		mounts = replaceMount(mounts, mount)
	}
	return mounts, nil
}

// mount judges one mount.
func (m rootMaker) mount(a *wasmnodev1.ProcessMount) (workload.Mount, error) {
	refused := func(why string) (workload.Mount, error) {
		return workload.Mount{}, abi.NewError(abi.InvalidArgument, fmt.Sprintf("mount at %s: %s", plaintext.Line(a.GetTarget(), 256), why))
	}
	target, err := inRoot(a.GetTarget())
	switch {
	case err != nil:
		return workload.Mount{}, err
	case len(a.Target) > maxMountPath || len(a.Source) > maxMountPath:
		return refused(fmt.Sprintf("a path has more than %d bytes", maxMountPath))
	case target == "/":
		return refused("that is the root itself")
	case slices.ContainsFunc(fixedInRoot, func(dir string) bool { return within(target, dir) }):
		return refused("/dev, /proc and /sys are the node's to make")
	case a.Tmpfs == (a.Source != ""):
		return refused("it has either a source or tmpfs")
	case a.Tmpfs:
		return workload.Mount{GuestPath: target, ReadOnly: a.ReadOnly, Memory: true}, nil
	}
	mount, err := m.source("mount", a.Source, a.ReadOnly)
	mount.GuestPath = target
	return mount, err
}

// source is what is mounted: the task's own, or granted.
func (m rootMaker) source(what, asked string, readOnly bool) (workload.Mount, error) {
	dirs := m.task.GetDirectories()
	if strings.ContainsRune(asked, 0) || len(asked) > maxMountPath {
		return workload.Mount{}, abi.NewError(abi.InvalidArgument, fmt.Sprintf("%s %q is not a path", what, plaintext.Line(asked, 256)))
	}
	file, err := inTask(asked, dirs.GetTask())
	if err != nil {
		return workload.Mount{}, err
	}
	mount := workload.Mount{HostPath: file, ReadOnly: readOnly}
	for _, own := range []string{dirs.GetTask(), dirs.GetShared()} {
		if own != "" && within(file, own) {
			mount.Within = own
			return mount, nil
		}
	}
	base, ok := m.grant.mount(file, readOnly)
	if !ok {
		line, rights := plaintext.Line(file, 256), "rw"
		if readOnly {
			rights = "r"
		}
		return workload.Mount{}, notGranted(what+" "+line, processFix(m.plugin, fmt.Sprintf("mounts = [%q]", rights+":"+line)))
	}
	mount.Within = base
	return mount, nil
}
