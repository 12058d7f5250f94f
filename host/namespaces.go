package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/openat2"
	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/workload/namespace"
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
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("the network namespace %q is no absolute path", plaintext.Line(path, 256)))
	}
	shown := plaintext.Line(path, 256)
	// Engines name theirs below /var/run, which is a link.
	real, missing := filepath.EvalSymlinks(path)
	if missing != nil {
		real = filepath.Clean(path)
		if parent, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			real = filepath.Join(parent, filepath.Base(path))
		}
	}
	within := p.namespacesWith(real)
	switch {
	case within != "" && missing != nil: // whether others are there is not told
		return nil, abi.NewError(abi.FailedPrecondition, fmt.Sprintf("the network namespace %q: %v", shown, missing))
	case within == "":
		return nil, notGranted(fmt.Sprintf("the network namespace %q", shown), netFix(p.Name(), fmt.Sprintf("namespaces = [%q]", plaintext.Line(filepath.Dir(filepath.Clean(path)), 256)))) // nor where links lead
	}
	place, err := openPlace(within, real)
	if err != nil {
		return nil, abi.NewError(abi.FailedPrecondition, fmt.Sprintf("the network namespace %q: %v", shown, err))
	}
	defer func() { _ = unix.Close(place) }() // nothing can be written to it
	f, err := namespace.ReopenNetwork(place, real)
	if err != nil {
		return nil, err
	}
	if err := foreignNetwork(f); err != nil {
		_ = f.Close() // nothing was written to it
		return nil, err
	}
	return f, nil
}

// namespacesWith is the granted directory that a path is in, itself without links; empty: none
// is.
func (p *Plugin) namespacesWith(real string) string {
	s := p.pool.settings()
	if s == nil {
		return ""
	}
	for _, dir := range s.grants.Net.Namespaces {
		if granted, err := filepath.EvalSymlinks(dir); err == nil && real != granted && within(real, granted) {
			return granted
		}
	}
	return ""
}

// openPlace opens a path in a directory, without what it stands for. Links that have come since
// it was judged are not followed.
func openPlace(dir, path string) (int, error) {
	base, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(base) }() // nothing can be written to it
	rest, err := filepath.Rel(dir, path)
	if err != nil {
		return -1, err
	}
	return openat2.Path(base, rest, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
}

// foreignNetwork refuses the node's own network.
func foreignNetwork(f *os.File) error {
	this, err := namespace.ID(f)
	if err != nil {
		return err
	}
	own, err := ownNetwork()
	if err != nil {
		return err
	}
	if this == own {
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("%s is the node's own network", f.Name()))
	}
	return nil
}

// ownNetwork is the node's. It is not asked for by the process's number, whose first thread may
// have ended in another one.
func ownNetwork() (string, error) {
	f, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return "", err
	}
	defer f.Close()
	return namespace.ID(f)
}
