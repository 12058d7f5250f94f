package allocdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/wasmnode/wasmnode/internal/failpoint"
)

// Replace writes a file below root, whole or not at all, and makes the directories that it is in. Nothing
// that a task lays there leads out of root; after the machine's end, and so the task's, it is written anew.
// An owner below 0 is the agent. What it is, such as "template", names the instants before and
// after it is there. Errors have no path.
func Replace(root *os.Root, name string, content []byte, mode fs.FileMode, uid, gid int, what string) (err error) {
	dir, base := path.Split(name)
	if dir != "" {
		if err := root.MkdirAll(path.Clean(dir), 0o755); err != nil {
			return fmt.Errorf("make its directory: %w", WithoutPath(err))
		}
	}
	next := dir + "." + base + ".new"
	_ = root.Remove(next) // an earlier agent's
	f, err := root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return WithoutPath(err)
	}
	defer func() {
		if err != nil {
			_ = root.Remove(next) // the error is enough
			err = WithoutPath(err)
		}
	}()
	_, err = f.Write(content)
	if err == nil && (uid >= 0 || gid >= 0) {
		err = f.Chown(uid, gid)
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	failpoint.Here(what, "rename")
	err = root.Rename(next, name)
	failpoint.Here(what, "renamed")
	return err
}

// WithoutPath is what went wrong with a file, without where that is on the host.
func WithoutPath(err error) error {
	for at := (*fs.PathError)(nil); errors.As(err, &at); {
		err = at.Err
	}
	for at := (*os.LinkError)(nil); errors.As(err, &at); {
		err = at.Err
	}
	return err
}
