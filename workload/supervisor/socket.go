package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/wasmnode/wasmnode/internal/failpoint"
)

// Listen listens on a socket that only this user can open, in place of one that was
// left behind. The caller holds what keeps a second supervisor away.
func Listen(socket string) (net.Listener, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	failpoint.Here("listen")
	var l net.Listener
	err := short(socket, func(path string) (err error) {
		l, err = net.Listen("unix", path)
		return err
	})
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // by another name than it may have
	return l, os.Chmod(socket, 0o600)
}

func dial(ctx context.Context, socket string) (c net.Conn, err error) {
	err = short(socket, func(path string) error {
		c, err = new(net.Dialer).DialContext(ctx, "unix", path)
		return err
	})
	return c, err
}

// maxSocketPath is what the kernel takes for a socket's path.
const maxSocketPath = 107

// short calls use with a name for a socket that the kernel takes, however long its
// path is.
func short(socket string, use func(path string) error) error {
	if len(socket) <= maxSocketPath {
		return use(socket)
	}
	dir, err := os.Open(filepath.Dir(socket))
	if err != nil {
		return err
	}
	defer dir.Close()
	return use(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(socket)))
}
