package outbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/openat2"
)

// Socket connects to a unix socket, whose path is absolute and clean, without following
// links: who can write to a directory on the way leads nobody elsewhere.
//
// # Errors
//
// PERMISSION_DENIED: a link is on the way; NOT_FOUND: nothing is there; FAILED_PRECONDITION:
// it is no socket; UNAVAILABLE, recoverable: nobody listens.
func Socket(ctx context.Context, path string) (net.Conn, error) {
	fd, err := openSocket(unix.AT_FDCWD, path, path, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	return connect(ctx, fd, path)
}

// SocketBelow connects to a unix socket that is in a directory or below it, and is of there:
// nothing that lies elsewhere is reached, neither through a link nor through a mount, nor as
// a file's second name. Path is absolute and clean; links on the way to the directory itself
// are followed.
//
// # Errors
//
// Those of [Socket]; PERMISSION_DENIED also where a mount is on the way, or the socket has
// another name.
func SocketBelow(ctx context.Context, directory, path string) (net.Conn, error) {
	name, err := filepath.Rel(directory, path)
	if err != nil || !filepath.IsLocal(name) || name == "." {
		return nil, abi.NewError(abi.PermissionDenied, fmt.Sprintf("%s is not below %s", path, directory))
	}
	dir, err := unix.Open(directory, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, notOpened(path, err)
	}
	defer func() { _ = unix.Close(dir) }()
	fd, err := openSocket(dir, name, path, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_XDEV)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return nil, notOpened(path, err)
	}
	if info.Nlink > 1 {
		return nil, abi.NewError(abi.PermissionDenied, path+" has another name, which may be anywhere")
	}
	return connect(ctx, fd, path)
}

// openSocket opens what is a socket, for its path alone; the caller closes it. Path is what
// errors name.
func openSocket(dir int, name, path string, resolve uint64) (int, error) {
	fd, err := openat2.Path(dir, name, resolve)
	if err != nil {
		return -1, notOpened(path, err)
	}
	var info unix.Stat_t
	if err = unix.Fstat(fd, &info); err != nil {
		err = notOpened(path, err)
	} else if info.Mode&unix.S_IFMT != unix.S_IFSOCK {
		err = abi.NewError(abi.FailedPrecondition, path+" is not a socket")
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// connect connects to the socket that was opened, whatever its path leads to by now.
func connect(ctx context.Context, fd int, path string) (net.Conn, error) {
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
	case errors.Is(err, unix.EXDEV):
		return abi.NewError(abi.PermissionDenied, path+" leads out of its directory, or through a mount")
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return abi.NewRecoverableError(abi.NotFound, fmt.Sprintf("there is no socket %s", path))
	case errors.Is(err, unix.EACCES):
		return abi.NewError(abi.PermissionDenied, fmt.Sprintf("the node's user may not open %s", path))
	}
	return abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("opening %s: %v", path, err))
}
