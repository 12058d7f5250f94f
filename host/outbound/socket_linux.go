package outbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
)

// Socket connects to a unix socket, whose path is absolute and clean, without following
// links: who can write to a directory on the way leads nobody elsewhere.
//
// # Errors
//
// PERMISSION_DENIED: a link is on the way; NOT_FOUND: nothing is there; FAILED_PRECONDITION:
// it is no socket; UNAVAILABLE, recoverable: nobody listens.
func Socket(ctx context.Context, path string) (net.Conn, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, notOpened(path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return nil, notOpened(path, err)
	}
	if info.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, abi.NewError(abi.FailedPrecondition, fmt.Sprintf("%s is not a socket", path))
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, unreachable(ctx, path, err)
	}
	return conn, nil
}

// notOpened says why a path leads to no socket.
func notOpened(path string, err error) error {
	switch {
	case errors.Is(err, unix.ELOOP):
		real, unknown := filepath.EvalSymlinks(path)
		if unknown != nil {
			return abi.NewError(abi.PermissionDenied, fmt.Sprintf("%s leads through a symbolic link, and links are not followed", path))
		}
		return abi.NewError(abi.PermissionDenied, fmt.Sprintf("%s leads through a symbolic link, and links are not followed: use, and grant, %s", path, real))
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return abi.NewRecoverableError(abi.NotFound, fmt.Sprintf("there is no socket %s", path))
	case errors.Is(err, unix.EACCES):
		return abi.NewError(abi.PermissionDenied, fmt.Sprintf("the node's user may not open %s", path))
	}
	return abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("opening %s: %v", path, err))
}
