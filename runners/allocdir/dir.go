package allocdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/wasmnode/wasmnode/internal/failpoint"
)

// The names of the directories, with Nomad's layout:
//
//	ALLOC/alloc/{logs,tmp,data}      shared by the tasks
//	ALLOC/TASK/{local,secrets,tmp}   of one task
const (
	SharedName  = "alloc"
	LogsName    = "logs"
	DataName    = "data"
	TmpName     = "tmp"
	LocalName   = "local"
	SecretsName = "secrets"
)

// The modes of the directories. The allocation's own can be passed through but not
// listed by others; what tasks share is open to every user that a task runs as;
// secrets are their owner's alone.
const (
	modeRoot    = 0o711
	modeShared  = 0o777
	modeTmp     = 0o777 | fs.ModeSticky
	modeSecrets = 0o700
)

// ErrName is returned for a task whose name cannot name a directory.
var ErrName = errors.New("allocdir: not a directory name")

// Dir is one allocation's directory. It is a value without state of its own: what is
// built is what is on disk. Build, BuildTask, Move and Destroy are their owner's, one
// at a time; everything else may be called at any time, also while the directory is
// being built or removed.
type Dir struct {
	root string
}

// New names an allocation's directory under allocsDir. Nothing is created.
func New(allocsDir, allocID string) *Dir {
	return &Dir{root: filepath.Join(allocsDir, allocID)}
}

// Path is the allocation's directory.
func (d *Dir) Path() string { return d.root }

// Shared is the directory that the tasks share: NOMAD_ALLOC_DIR.
func (d *Dir) Shared() string { return filepath.Join(d.root, SharedName) }

// Logs is where the tasks' logs are.
func (d *Dir) Logs() string { return filepath.Join(d.root, SharedName, LogsName) }

// Data is the shared directory that a sticky or migrated disk keeps.
func (d *Dir) Data() string { return filepath.Join(d.root, SharedName, DataName) }

// TaskDir is the directory of one task. All paths are the host's.
type TaskDir struct {
	Alloc   *Dir
	Name    string
	Path    string
	Local   string // NOMAD_TASK_DIR; kept by a sticky or migrated disk
	Secrets string // NOMAD_SECRETS_DIR
	Tmp     string
}

// Task names a task's directory. Nothing is created. The error is [ErrName].
func (d *Dir) Task(name string) (*TaskDir, error) {
	if name == "." || name == SharedName || name == diskPart || name == diskWhole || !filepath.IsLocal(name) || strings.ContainsAny(name, `/\`) {
		return nil, fmt.Errorf("%w: task %q", ErrName, name)
	}
	path := filepath.Join(d.root, name)
	return &TaskDir{
		Alloc:   d,
		Name:    name,
		Path:    path,
		Local:   filepath.Join(path, LocalName),
		Secrets: filepath.Join(path, SecretsName),
		Tmp:     filepath.Join(path, TmpName),
	}, nil
}

// Exists reports whether the directory is on disk.
func (d *Dir) Exists() bool {
	info, err := os.Stat(d.root)
	return err == nil && info.IsDir()
}

// Build creates the allocation's directory and the shared ones. What exists stays.
func (d *Dir) Build() error {
	return build(
		wanted{d.root, modeRoot},
		wanted{d.Shared(), modeShared},
		wanted{d.Logs(), modeShared},
		wanted{d.Data(), modeShared},
		wanted{filepath.Join(d.Shared(), TmpName), modeTmp},
	)
}

// Build creates the task's directories. What exists stays. The allocation's own has to
// be built first.
func (t *TaskDir) Build() error {
	return build(
		wanted{t.Path, modeRoot},
		wanted{t.Local, modeShared},
		wanted{t.Secrets, modeSecrets},
		wanted{t.Tmp, modeTmp},
	)
}

type wanted struct {
	path string
	mode fs.FileMode
}

// build creates directories, parents first, with exactly the modes asked for,
// whatever the process's umask is.
func build(dirs ...wanted) error {
	for _, w := range dirs {
		failpoint.Here("mkdir")
		err := os.Mkdir(w.path, 0o700)
		switch {
		case errors.Is(err, fs.ErrExist):
			if info, err := os.Lstat(w.path); err != nil || !info.IsDir() {
				return fmt.Errorf("allocdir: %s: is not a directory", w.path)
			}
			continue
		case err != nil:
			return fmt.Errorf("allocdir: build: %w", err)
		}
		if err := os.Chmod(w.path, w.mode); err != nil {
			return fmt.Errorf("allocdir: build: %w", err)
		}
	}
	return nil
}

// Move takes over another allocation's data: its shared data directory and the local
// directory of each task named that both have. Each directory is moved by one rename,
// so it is either here or there; a directory that is not empty here is an error.
// Both allocations have to be built and no task may run in the other.
func (d *Dir) Move(from *Dir, tasks []string) error {
	if !d.Exists() {
		return fmt.Errorf("allocdir: move: %s is not built", d.root)
	}
	if err := rename(from.Data(), d.Data()); err != nil {
		return err
	}
	for _, name := range tasks {
		src, err := from.Task(name)
		if err != nil {
			return err
		}
		dst, err := d.Task(name)
		if err != nil {
			return err
		}
		if err := build(wanted{dst.Path, modeRoot}); err != nil {
			return err
		}
		if err := rename(src.Local, dst.Local); err != nil {
			return err
		}
	}
	return nil
}

// rename moves a directory to where an empty one may be. What is not there is not an error.
func rename(from, to string) error {
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("allocdir: move: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("allocdir: move: %s is not a directory", from)
	}
	// rename(2) replaces an empty directory and refuses one that is not empty, in one
	// step; os.Rename refuses both.
	failpoint.Here("move")
	if err := syscall.Rename(from, to); err != nil {
		return fmt.Errorf("allocdir: move %s to %s: %w", from, to, err)
	}
	return nil
}

// Destroy removes the allocation's directory with all that is in it, and nothing of what is mounted
// there. What is gone already is not an error.
func (d *Dir) Destroy() error {
	if err := UnmountBelow(d.root); err != nil {
		return err
	}
	failpoint.Here("allocdir.remove")
	err := os.RemoveAll(d.root)
	failpoint.Here("allocdir.removed")
	if err == nil {
		return nil
	}
	// A task may have taken its own directories' permissions away.
	_ = filepath.WalkDir(d.root, func(path string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(path, 0o700) // what still fails is reported below
		}
		return nil
	})
	if err = os.RemoveAll(d.root); err != nil {
		return fmt.Errorf("allocdir: destroy: %w", err)
	}
	return nil
}

// Usage is what the directory takes on disk, in bytes, links counted as themselves.
// What vanishes meanwhile is not counted, and neither are secrets.
func (d *Dir) Usage(ctx context.Context) (int64, error) {
	var total int64
	err := filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || e == nil {
			return nil
		}
		if e.IsDir() && e.Name() == SecretsName && filepath.Dir(filepath.Dir(path)) == d.root {
			return fs.SkipDir // small, and mostly in memory
		}
		if info, err := e.Info(); err == nil {
			total += onDisk(info)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("allocdir: usage: %w", err)
	}
	return total, nil
}
