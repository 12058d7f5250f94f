package host

import (
	"path/filepath"
	"slices"

	"github.com/tetratelabs/wazero"
	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sandbox/rootfs"
)

// taskFiles are the directories of the task that a driver's call is about, as its instance sees
// them: at the same places whichever task that is. The zero value has none.
type taskFiles struct{ task, alloc *rootfs.Switch }

// seesTaskFiles reports whether the plugin has any use of them.
func (p *Plugin) seesTaskFiles() bool {
	return p.spec.Kind == KindDriver && slices.Contains(p.spec.Capabilities, abi.ModuleWASI)
}

// newTaskFiles returns those of no task; done is the guest's end.
func newTaskFiles(done func() <-chan struct{}) taskFiles {
	return taskFiles{rootfs.NewSwitch(done), rootfs.NewSwitch(done)}
}

// mount makes them visible, after all that was granted.
func (f taskFiles) mount(files wazero.FSConfig, inst *instance, own Surroundings) (wazero.FSConfig, error) {
	for _, dir := range []struct {
		at string
		fs experimentalsys.FS
	}{{abi.TaskDir, f.task}, {abi.TaskAllocDir, f.alloc}} {
		seen, err := inst.sees(own, dir.at, func() (experimentalsys.FS, error) { return dir.fs, nil })
		if err != nil {
			return nil, err
		}
		files = files.(sysfs.FSConfig).WithSysFSMount(seen, dir.at)
	}
	return files, nil
}

// enter begins a call about a task; nil: about none.
func (f taskFiles) enter(scope *TaskScope) {
	if f.task == nil || scope == nil {
		return
	}
	dirs := scope.Config.GetDirectories()
	f.task.Set(openTaskDir(dirs.GetAlloc(), dirs.GetTask()))
	f.alloc.Set(openTaskDir(dirs.GetAlloc(), dirs.GetShared()))
}

// leave ends the call, and returns how many files the guest left open, which are closed.
func (f taskFiles) leave() (left int) {
	if f.task == nil {
		return 0
	}
	return f.task.Clear() + f.alloc.Clear()
}

// openTaskDir returns what opens a directory of a task; nil: there is none. It is not led out
// of the allocation's.
func openTaskDir(alloc, dir string) func() (*rootfs.FS, error) {
	if dir == "" {
		return nil
	}
	return func() (*rootfs.FS, error) {
		if rest, err := filepath.Rel(alloc, dir); alloc != "" && err == nil && filepath.IsLocal(rest) {
			return rootfs.OpenWithin(alloc, rest, false)
		}
		return rootfs.Open(dir, false)
	}
}
