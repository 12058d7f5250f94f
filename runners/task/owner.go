package task

import (
	"fmt"
	"io/fs"
	"os"
	"path"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/runners/taskenv"
)

// owner is whom what is in a task's secrets directory is for.
type owner struct {
	known    bool
	uid, gid int
	isolated bool
}

// ownerOf is the user that a task names, if this machine has it and the agent may give files
// away.
func ownerOf(t *nomad.Task, env *taskenv.Env, isolated bool) owner {
	o := owner{isolated: isolated}
	if t.User == "" || os.Geteuid() != 0 {
		return o
	}
	// An image may have users that the machine does not.
	if u, err := ownerNamed(env.Replace(t.User)); err == nil {
		o.known, o.uid, o.gid = true, u.UID, u.GID
	}
	return o
}

// mode is that of a file or, with write, a socket that is the owner's alone. One whose user only
// the driver knows is behind the directory's mode, which it then is given.
func (o owner) mode(write bool) fs.FileMode {
	switch {
	case o.known || !o.isolated:
		return 0o600
	case write:
		return 0o666
	}
	return 0o644
}

// giveSecrets has the secrets directory be its owner's. Where the task has a file system of its
// own, who starts it does that.
func (o owner) giveSecrets(dir *allocdir.TaskDir) error {
	if !o.known || o.isolated {
		return nil
	}
	root, err := os.OpenRoot(dir.Path)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.Lchown(allocdir.SecretsName, o.uid, o.gid)
}

// writeToken writes a token into a file of the task's directory, whole or not at all. The error
// has no path of the host.
func (o owner) writeToken(dir *allocdir.TaskDir, name, token string) error {
	root, err := os.OpenRoot(dir.Path)
	if err != nil {
		return err
	}
	defer root.Close()
	uid, gid := -1, -1
	if o.known {
		uid, gid = o.uid, o.gid
	}
	if err := allocdir.Replace(root, path.Clean(name), []byte(token), o.mode(false), uid, gid, "identity"); err != nil {
		return fmt.Errorf("the token cannot be written to %s: %w", name, err)
	}
	return nil
}
