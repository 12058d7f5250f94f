package wasi

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sandbox/rootfs"
	"github.com/wasmnode/wasmnode/workload"
)

// mountPoint is what a guest sees at one of its paths: a host directory, or single
// files side by side.
type mountPoint interface {
	sys.FS
	StopOn(done func() <-chan struct{})
	Close() error
}

// openMounts opens what the guest sees of the host's files.
func (e *entry) openMounts(config wazero.FSConfig, mounts []workload.Mount) (wazero.FSConfig, error) {
	points := map[string]mountPoint{}
	for _, m := range mounts {
		at, point, err := addMount(points, m)
		if err != nil {
			return nil, err
		}
		if points[at] == nil {
			points[at] = point
			e.cleanup = append(e.cleanup, func() { _ = point.Close() })
			config = config.(sysfs.FSConfig).WithSysFSMount(point, at)
		}
	}
	for _, point := range points {
		point.StopOn(e.guest.Done)
	}
	return config, nil
}

// addMount opens a mount: as a mount point of its own, or within one that is there.
func addMount(points map[string]mountPoint, m workload.Mount) (at string, point mountPoint, err error) {
	within, rest := m.Within, "."
	if within == "" {
		within = m.HostPath
	} else if rest, err = filepath.Rel(within, m.HostPath); err != nil {
		return "", nil, mountError(m, err)
	}
	at = path.Clean(m.GuestPath)
	if !path.IsAbs(at) {
		return "", nil, refusedMount(m, "the guest's path is not absolute")
	}
	if info, err := os.Lstat(m.HostPath); err == nil && info.Mode().IsRegular() {
		if m.Within == "" {
			within, rest = filepath.Split(m.HostPath)
		}
		return addFile(points, m, at, within, rest)
	}
	if points[at] != nil {
		return "", nil, refusedMount(m, "something else is mounted there")
	}
	dir, err := rootfs.OpenWithin(within, rest, m.ReadOnly)
	if err != nil {
		return "", nil, mountError(m, err)
	}
	return at, dir, nil
}

// addFile opens a single file, beside others that are mounted in the same directory.
func addFile(points map[string]mountPoint, m workload.Mount, file, within, rest string) (at string, _ mountPoint, err error) {
	at = path.Dir(file)
	files, ok := points[at].(*rootfs.Files)
	switch {
	case file == "/":
		return "", nil, refusedMount(m, "a file cannot be the root")
	case !ok && points[at] != nil:
		return "", nil, refusedMount(m, "a directory is mounted where the file would be")
	case !ok:
		files = rootfs.NewFiles()
	}
	if err := files.Add(path.Base(file), filepath.Clean(within), rest, m.ReadOnly); err != nil {
		return "", nil, mountError(m, err)
	}
	return at, files, nil
}

func refusedMount(m workload.Mount, why string) error {
	return abi.NewError(abi.InvalidArgument, fmt.Sprintf("mount %s at %s: %s", m.HostPath, m.GuestPath, why))
}

// mountError is the error for a mount that failed. Only what the system may have
// tomorrow can be tried again.
func mountError(m workload.Mount, err error) error {
	info, statErr := os.Stat(m.HostPath)
	text := fmt.Sprintf("mount %s at %s: %v", m.HostPath, m.GuestPath, err)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return abi.NewError(abi.NotFound, text)
	case errors.Is(err, os.ErrPermission):
		return abi.NewError(abi.PermissionDenied, text)
	case errors.Is(err, os.ErrInvalid):
		return refusedMount(m, "something else is mounted there")
	case statErr == nil && !info.IsDir():
		return refusedMount(m, "it is neither a directory nor a file")
	case m.Within != "":
		return abi.NewError(abi.PermissionDenied, text)
	}
	return abi.NewRecoverableError(abi.Unavailable, text)
}
