package task

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/structs"
)

// volumesHook gives a task the volumes that it mounts, as the node has them at each start. A
// task without a file system of its own gets a link in its directory.
type volumesHook struct{}

func (volumesHook) Name() string { return "volumes" }

func (volumesHook) Prestart(_ context.Context, req *PrestartRequest) (*PrestartResult, error) {
	var result PrestartResult
	for _, m := range req.Task.VolumeMounts {
		name := structs.Deref(m.Volume)
		mount, err := volumeMount(req, m)
		if err != nil {
			return nil, fmt.Errorf("volume %q: %w", name, err)
		}
		switch {
		case req.Isolated:
			result.Mounts = append(result.Mounts, mount)
			continue
		case mount.ReadOnly:
			return nil, fmt.Errorf("task driver %q for %q cannot keep volume %q read-only: its tasks have no file system of their own", req.Task.Driver, req.Task.Name, name)
		}
		if err := link(req.Dir, mount); err != nil {
			return nil, fmt.Errorf("volume %q: %w", name, err)
		}
	}
	return &result, nil
}

// volumeMount is where a task sees a volume. The node may have been configured otherwise since
// the allocation was placed.
func volumeMount(req *PrestartRequest, m *nomad.VolumeMount) (mount structs.Mount, err error) {
	asked := req.Alloc.Group().Volumes[structs.Deref(m.Volume)]
	if asked == nil {
		return mount, errors.New("the group has none of that name")
	}
	source := structs.VolumeSource(asked, req.Alloc.Name)
	v := req.Node.HostVolume(source)
	switch {
	case v == nil:
		return mount, fmt.Errorf("the node has no host volume %q any more", source)
	case v.ReadOnly && !asked.ReadOnly:
		return mount, fmt.Errorf("the node's host volume %q is read-only now", source)
	}
	if err := isDirectory(v); err != nil {
		return mount, err
	}
	at := path.Join("/", req.Env.Replace(structs.Deref(m.Destination)))
	if at == "/" {
		return mount, errors.New("its destination is not below the task's root")
	}
	return structs.Mount{
		TaskPath: at, HostPath: v.Path,
		ReadOnly: v.ReadOnly || asked.ReadOnly || structs.Deref(m.ReadOnly),
	}, nil
}

// isDirectory finds out whether a volume is still there. What a dynamic one is in may be written
// to by other tasks: no link of theirs may lead elsewhere.
func isDirectory(v *structs.HostVolume) error {
	info, err := os.Stat(v.Path)
	if err == nil && v.ID != "" {
		var resolved string
		if resolved, err = filepath.EvalSymlinks(v.Path); err == nil && resolved != v.Path {
			return fmt.Errorf("a link leads from %s to %s now", v.Path, resolved)
		}
	}
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no directory", v.Path)
	}
	return nil
}

// link leads from a path in the task's directory to a volume. The directory was the task's
// before, if it is started again.
func link(dir *allocdir.TaskDir, m structs.Mount) error {
	root, err := os.OpenRoot(dir.Path)
	if err != nil {
		return err
	}
	defer root.Close()
	at := m.TaskPath[1:]
	if info, err := root.Lstat(at); err == nil && info.Mode().Type() == os.ModeSymlink {
		if err := root.Remove(at); err != nil {
			return err
		}
	}
	if err := root.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	return root.Symlink(m.HostPath, at)
}
