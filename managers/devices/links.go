package devices

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/structs"
)

// followLinks replaces what a reservation gives a task by what it is once symbolic links
// are followed, and refuses what is outside of the grants then: whoever makes a link
// must not decide what a task gets.
func followLinks(r *structs.DeviceReservation, g host.Grants) error {
	for i := range r.Nodes {
		if err := followNode(&r.Nodes[i], g); err != nil {
			return fmt.Errorf("device_nodes[%d]: host_path: %w", i, err)
		}
	}
	g.FS.ReadOnly, g.FS.ReadWrite = resolveLinks(g.FS.ReadOnly), resolveLinks(g.FS.ReadWrite)
	for i := range r.Mounts {
		if err := followMount(&r.Mounts[i], g); err != nil {
			return fmt.Errorf("mounts[%d]: host_path: %w", i, err)
		}
	}
	return nil
}

// followNode leaves a device node as it is that is not there: a process without
// isolation may wait for it, and for others it is not there when they start.
func followNode(n *structs.DeviceNode, g host.Grants) error {
	target, err := filepath.EvalSymlinks(n.HostPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := os.Lstat(target)
	switch {
	case err != nil:
		return err
	case !g.NodeGranted(target):
		return fmt.Errorf("%s leads to %s, which is not granted", n.HostPath, target)
	case info.Mode()&fs.ModeDevice == 0:
		return fmt.Errorf("%s is not a device node", target)
	}
	n.HostPath = target
	return nil
}

// followMount takes the grants with their own links followed.
func followMount(m *structs.Mount, g host.Grants) error {
	target, err := filepath.EvalSymlinks(m.HostPath)
	if err != nil {
		return err
	}
	if !g.Mountable(target, m.ReadOnly) {
		return fmt.Errorf("%s leads to %s, which is not granted", m.HostPath, target)
	}
	m.HostPath = target
	return nil
}

// resolveLinks returns where directories really are; those that are not there are left
// out.
func resolveLinks(dirs []string) (targets []string) {
	for _, dir := range dirs {
		if target, err := filepath.EvalSymlinks(dir); err == nil {
			targets = append(targets, target)
		}
	}
	return targets
}
