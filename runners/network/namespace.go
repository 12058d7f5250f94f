package network

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/workload/namespace"
)

// isNamespace reports whether there is a namespace at a path, and not only the file that
// one would be mounted on.
func isNamespace(path string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && fs.Type == unix.NSFS_MAGIC
}

// makeNamespace makes a network namespace whose loopback interface is up, and keeps it at
// a path, where it stays without a process in it.
func makeNamespace(path string) error {
	if err := makeFile(path); err != nil {
		return err
	}
	made := make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine, since it is in the namespace.
		runtime.LockOSThread()
		made <- makeHere(path)
	}()
	if err := <-made; err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// makeFile makes the file that a namespace is mounted on.
func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o444)
	if err != nil {
		return err
	}
	return f.Close()
}

// keepNamespace keeps a namespace of somebody else's at a path, in which it stays when that one
// lets go of it.
func keepNamespace(path string, open *os.File) error {
	if err := makeFile(path); err != nil {
		return err
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", open.Fd()), path, "", unix.MS_BIND, ""); err != nil {
		return errors.Join(fmt.Errorf("keeping %s at %s: %w", open.Name(), path, err), os.Remove(path))
	}
	return nil
}

func makeHere(path string) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("a network namespace: %w", err)
	}
	if err := namespace.StartLoopback(); err != nil {
		return err
	}
	if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("keeping it at %s: %w", path, err)
	}
	return nil
}

// removeNamespace lets go of a namespace, which ends when nobody is in it any more. That
// there is none is not an error.
func removeNamespace(path string) error {
	// Once for each agent that kept something there and died before it knew.
	for isNamespace(path) {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmounting %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
