package wasi

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental/sysfs"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host/rootfs"
	"github.com/wasmnode/wasmnode/workload"
)

// openMounts opens what the program sees of the host's files.
func (p *program) openMounts(mounts []workload.Mount) (wazero.FSConfig, error) {
	files := wazero.NewFSConfig()
	seen := map[string]bool{}
	for _, m := range mounts {
		at := path.Clean(m.GuestPath)
		switch {
		case !path.IsAbs(at):
			return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("mount %s: the guest's path %q is not absolute", m.HostPath, m.GuestPath))
		case seen[at]:
			return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("mount %s: there are two mounts at %s", m.HostPath, at))
		}
		seen[at] = true
		root, err := openMount(m)
		if err != nil {
			return nil, mountError(m, err)
		}
		root.StopOn(p.ctx.Done())
		p.cleanup = append(p.cleanup, func() { _ = root.Close() })
		files = files.(sysfs.FSConfig).WithSysFSMount(root, at)
	}
	return files, nil
}

func openMount(m workload.Mount) (*rootfs.FS, error) {
	if m.Within == "" {
		return rootfs.Open(m.HostPath, m.ReadOnly)
	}
	rest, err := filepath.Rel(m.Within, m.HostPath)
	if err != nil {
		return nil, err
	}
	return rootfs.OpenWithin(m.Within, rest, m.ReadOnly)
}

// mountError tells what is wrong with a mount. Only what the system may have
// tomorrow can be tried again.
func mountError(m workload.Mount, err error) error {
	text := fmt.Sprintf("mount %s at %s: %v", m.HostPath, m.GuestPath, err)
	info, statErr := os.Stat(m.HostPath)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return abi.NewError(abi.NotFound, text)
	case errors.Is(err, os.ErrPermission):
		return abi.NewError(abi.PermissionDenied, text)
	case statErr == nil && !info.IsDir():
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("mount %s at %s: it is not a directory; mount the directory that it is in", m.HostPath, m.GuestPath))
	case m.Within != "":
		return abi.NewError(abi.PermissionDenied, text)
	}
	return abi.NewRecoverableError(abi.Unavailable, text)
}
