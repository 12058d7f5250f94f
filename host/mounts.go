package host

import (
	"maps"
	"os"
	"path"
	"slices"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/workload"
)

// mountOf and deviceOf are where a message's form becomes the workload's. Paths in the
// task become absolute.
func mountOf(m *wasmnodev1.Mount) workload.Mount {
	return workload.Mount{GuestPath: path.Join("/", m.GetTaskPath()), HostPath: m.GetHostPath(), ReadOnly: m.GetReadOnly()}
}

// deviceOf leaves the permissions out: a node's owner and mode are the host's.
func deviceOf(d *wasmnodev1.DeviceNode) workload.Device {
	return workload.Device{GuestPath: path.Join("/", d.GetTaskPath()), HostPath: d.GetHostPath()}
}

// rootMounts is what an isolated task sees in its root: the node's programs, the
// allocation's shared directory, and what was mounted for it.
func (h *Host) rootMounts(task *wasmnodev1.TaskConfig) (mounts []workload.Mount) {
	for _, source := range slices.Sorted(maps.Keys(h.cfg.Chroot)) {
		if _, err := os.Stat(source); err == nil {
			mounts = append(mounts, workload.Mount{GuestPath: path.Clean(h.cfg.Chroot[source]), HostPath: source, ReadOnly: true})
		}
	}
	return addTaskMounts(mounts, task)
}

// addTaskMounts adds the allocation's shared directory, and what was mounted for the task.
func addTaskMounts(mounts []workload.Mount, task *wasmnodev1.TaskConfig) []workload.Mount {
	if shared := task.GetDirectories().GetShared(); shared != "" {
		mounts = append(mounts, workload.Mount{GuestPath: sharedInRoot, HostPath: shared})
	}
	for _, m := range task.Mounts {
		mounts = replaceMount(mounts, mountOf(m))
	}
	return mounts
}

// replaceMount adds a mount, which replaces what every task has there.
func replaceMount(mounts []workload.Mount, mount workload.Mount) []workload.Mount {
	mounts = slices.DeleteFunc(mounts, func(other workload.Mount) bool { return other.GuestPath == mount.GuestPath })
	return append(mounts, mount)
}
