package task

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/internal/failpoint"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/structs"
)

// APISocket is the name of the socket in a task's secrets directory.
const APISocket = "api.sock"

// maxAPIPath is the longest path that a program can connect to, in bytes.
const maxAPIPath = 107

// API serves the node's HTTP API to tasks.
type API interface {
	// ServeTask serves a listener, and returns at once. stop closes it and its connections, and
	// returns when nothing of it is left.
	ServeTask(l net.Listener) (stop func())
}

// apiHook has a task reach the node's API by a socket in its secrets directory while it runs. A
// task that has none goes on: few need it. Of those that have a token to show, an event tells.
type apiHook struct {
	api    API
	logger hclog.Logger
	path   string
	stop   func() // nil: there is no socket
}

func (*apiHook) Name() string { return "api" }

func (h *apiHook) Prestart(_ context.Context, req *PrestartRequest) (*PrestartResult, error) {
	h.open(req.Dir, ownerOf(req.Task, req.Env, req.Isolated), h.teller(req.Task, req.Emit))
	return nil, nil
}

// Poststart makes the socket of a task again that an earlier agent started.
func (h *apiHook) Poststart(_ context.Context, req *PoststartRequest) error {
	if h.stop != nil {
		return nil
	}
	r := req.Runner
	h.open(r.cfg.Dir, ownerOf(r.Task(), req.Env(), isolates(r.running().driver)), h.teller(r.Task(), r.emit))
	return nil
}

// teller tells what is wrong with the socket where somebody is who needs it, and else in the log.
func (h *apiHook) teller(t *nomad.Task, emit func(*structs.TaskEvent)) func(format string, args ...any) {
	return func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if len(exposed(t)) == 0 {
			h.logger.Debug("the task's socket of the API", "problem", text)
			return
		}
		emit(structs.NewTaskEvent(structs.EventHookFailed).WithMessage("api: " + text))
	}
}

func (h *apiHook) open(dir *allocdir.TaskDir, of owner, tell func(format string, args ...any)) {
	if h.api == nil || h.stop != nil {
		return
	}
	l, err := listenIn(dir, of)
	if err != nil {
		tell("the task has no socket of the node's API: %v", err)
		return
	}
	h.path, h.stop = filepath.Join(dir.Secrets, APISocket), h.api.ServeTask(l)
	if !of.isolated && len(h.path) > maxAPIPath {
		tell("%s has %d bytes, and programs connect to paths of at most %d: connect to %s from within $NOMAD_SECRETS_DIR, or have a shorter data_dir",
			h.path, len(h.path), maxAPIPath, APISocket)
	}
}

// listenIn makes the socket where nobody else has anything to do, and puts it in its place when
// it is its owner's: the secrets directory may be the task's, which may be running. Paths are by
// way of open directories, so that they are short.
func listenIn(dir *allocdir.TaskDir, of owner) (_ *net.UnixListener, err error) {
	to, err := openDirectory(unix.AT_FDCWD, dir.Secrets)
	if err != nil {
		return nil, err
	}
	defer to.Close()
	from, err := newPrivate(to)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Unlinkat(int(to.Fd()), privateName, unix.AT_REMOVEDIR); from.Close() }() // or the next one does
	made := fmt.Sprintf("/proc/self/fd/%d/s", from.Fd())
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it has another name by then
	if of.known {
		err = os.Chown(made, of.uid, of.gid)
	}
	if err == nil {
		err = os.Chmod(made, of.mode(true))
	}
	if err == nil {
		failpoint.Here("api.rename")
		err = unix.Renameat(int(from.Fd()), "s", int(to.Fd()), APISocket)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// privateName is the name of the directory that a socket is made in.
const privateName = ".api"

// newPrivate makes a directory that is the agent's alone in one that may be a task's: in that, as a
// socket cannot be moved to another file system. What a task puts in its place is not taken for it.
func newPrivate(in *os.File) (*os.File, error) {
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", in.Fd()))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := root.RemoveAll(privateName); err != nil { // an earlier agent's
		return nil, err
	}
	if err := root.Mkdir(privateName, 0o700); err != nil {
		return nil, err
	}
	made, err := openDirectory(int(in.Fd()), privateName)
	if err != nil {
		return nil, err
	}
	var is unix.Stat_t
	if err = unix.Fstat(int(made.Fd()), &is); err == nil && (int(is.Uid) != os.Geteuid() || is.Mode&0o77 != 0) {
		err = errors.New("the directory that it is made in was replaced")
	}
	if err != nil {
		made.Close()
		return nil, err
	}
	return made, nil
}

// openDirectory opens a directory by its name, and nothing that a link leads to.
func openDirectory(in int, name string) (*os.File, error) {
	fd, err := unix.Openat(in, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (h *apiHook) Exited(context.Context) error { h.close(); return nil }
func (h *apiHook) Stop(context.Context) error   { h.close(); return nil }
func (h *apiHook) Shutdown()                    { h.close() }

// close ends the socket and what is connected to it.
func (h *apiHook) close() {
	if h.stop == nil {
		return
	}
	h.stop()
	h.stop = nil
	if secrets, err := openDirectory(unix.AT_FDCWD, filepath.Dir(h.path)); err == nil {
		_ = unix.Unlinkat(int(secrets.Fd()), APISocket, 0) // the next start replaces it
		secrets.Close()
	}
}
