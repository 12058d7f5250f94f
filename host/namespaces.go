package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
)

// OpenNamespace opens a network namespace that a driver has named by its path. It is one in a
// directory that the driver is granted, wherever links lead, and not the node's own. The caller
// closes it.
//
// # Errors
//
// PERMISSION_DENIED: it is not granted; INVALID_ARGUMENT: it is no network namespace, or that of
// the node; FAILED_PRECONDITION: it cannot be opened.
func (p *Plugin) OpenNamespace(path string) (*os.File, error) {
	if !filepath.IsAbs(path) {
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("the network namespace %q is no absolute path", path))
	}
	// Engines name theirs below /var/run, which is a link.
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, abi.NewError(abi.FailedPrecondition, fmt.Sprintf("the network namespace %q: %v", path, err))
	}
	if !p.mayName(real) {
		dir := filepath.Dir(real)
		return nil, notGranted(fmt.Sprintf("the network namespace %q", path), fmt.Sprintf(`plugin %q { grant { net { namespaces = [%q] } } }`, p.Name(), dir))
	}
	f, err := os.OpenFile(real, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, abi.NewError(abi.FailedPrecondition, err.Error())
	}
	if err := foreignNetwork(f); err != nil {
		_ = f.Close() // nothing was written to it
		return nil, err
	}
	return f, nil
}

func (p *Plugin) mayName(real string) bool {
	s := p.pool.settings()
	return s != nil && slices.ContainsFunc(s.grants.Net.Namespaces, func(dir string) bool {
		granted, err := filepath.EvalSymlinks(dir)
		return err == nil && real != granted && within(real, granted)
	})
}

// foreignNetwork refuses what is no network namespace, or the node's own.
func foreignNetwork(f *os.File) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil || fs.Type != unix.NSFS_MAGIC {
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("%s is no namespace", f.Name()))
	}
	if kind, err := unix.IoctlRetInt(int(f.Fd()), unix.NS_GET_NSTYPE); err != nil || kind != unix.CLONE_NEWNET {
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("%s is no network namespace", f.Name()))
	}
	this, err := f.Stat()
	if err != nil {
		return err
	}
	// Not that of the process, whose first thread may have ended in another one.
	own, err := os.Stat("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	if os.SameFile(this, own) {
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("%s is the node's own network", f.Name()))
	}
	return nil
}
