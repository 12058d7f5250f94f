package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sandbox/scan"
	"github.com/wasmnode/wasmnode/workload"
)

// maxProgramBytes bounds a task's module: a Go program with net/http is 10 MB.
const maxProgramBytes = 64 << 20

// programFiles is the part of the host's file system that a task's program may come from
// and see.
type programFiles struct {
	plugin   string
	task     string   // where relative paths begin
	own      []string // the task's directories, and what the node mounts for it
	readOnly []string // those of own that are read-only
	dirs     []string // granted ones
	cache    *programCache
}

func programFilesOf(c *call, g WasmGrant) programFiles {
	d := c.scope.Config.GetDirectories()
	r := programFiles{plugin: c.plugin.Name(), task: d.GetTask(), own: []string{d.GetTask(), d.GetShared()}, dirs: g.Directories, cache: &c.plugin.host.read}
	for _, m := range c.scope.Config.GetMounts() {
		r.own = append(r.own, m.GetHostPath())
		if m.GetReadOnly() {
			r.readOnly = append(r.readOnly, m.GetHostPath())
		}
	}
	return r
}

// resolve returns a path as one of the base directories and the rest below it. A file that is
// not granted needs its directory granted; what is there is not looked at, since a guest reads
// the answer.
func (r programFiles) resolve(path string, file bool) (base, rest string, err error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return "", "", abi.NewError(abi.InvalidArgument, fmt.Sprintf("%q is not a path", plaintext.Line(path, 256)))
	}
	if !filepath.IsAbs(path) {
		if !filepath.IsLocal(path) {
			return "", "", abi.NewError(abi.PermissionDenied, fmt.Sprintf("path %s leads out of the task's directory", plaintext.Line(path, 256)))
		}
		if r.task == "" {
			return "", "", abi.NewError(abi.FailedPrecondition, "the task has no directory")
		}
		return r.task, path, nil
	}
	clean := filepath.Clean(path)
	for _, base := range slices.Concat(r.own, r.dirs) {
		if rest, err := filepath.Rel(base, clean); base != "" && err == nil && filepath.IsLocal(rest) {
			return base, rest, nil
		}
	}
	needed := clean
	if file {
		needed = filepath.Dir(clean)
	}
	fix := fmt.Sprintf("plugin %q { grant { wasm { directories = [%q] } } }", r.plugin, plaintext.Line(needed, 256))
	return "", "", &notGrantedError{abi.NewError(abi.PermissionDenied, fmt.Sprintf(
		"path %s is neither in the task's directory nor granted: add %s", plaintext.Line(path, 256), fix)), fix}
}

// readModule reads a program's module.
func (r programFiles) readModule(ctx context.Context, path string) (scan.Source, error) {
	base, rest, err := r.resolve(path, true)
	if err != nil {
		return scan.Source{}, err
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return scan.Source{}, fileError("module", path, err)
	}
	defer root.Close()
	// Not blocking, in case it is a FIFO.
	f, err := root.OpenFile(rest, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return scan.Source{}, fileError("module", path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return scan.Source{}, fileError("module", path, err)
	}
	if !info.Mode().IsRegular() {
		return scan.Source{}, abi.NewError(abi.InvalidArgument, fmt.Sprintf("module %s is not a file", plaintext.Line(path, 256)))
	}
	source, err := r.cache.read(f, info, func() ([]byte, error) { return readProgram(ctx, f, info.Size()) })
	if err != nil {
		return scan.Source{}, fileError("module", path, err)
	}
	if source.Size() > maxProgramBytes {
		return scan.Source{}, abi.NewError(abi.ResourceExhausted, fmt.Sprintf("module %s has more than %d bytes", plaintext.Line(path, 256), maxProgramBytes))
	}
	return source, nil
}

// readProgram reads a file of about that size, and no more of it than shows that it is too
// large.
func readProgram(ctx context.Context, f *os.File, size int64) ([]byte, error) {
	// The builder's room is not cleared first, which takes ten milliseconds at once.
	var b strings.Builder
	b.Grow(int(min(size, maxProgramBytes)) + 1) // one more, that a growing file may have
	if _, err := io.CopyBuffer(struct{ io.Writer }{&b}, io.LimitReader(clockedReader{ctx, f}, maxProgramBytes+1), make([]byte, pieceBytes)); err != nil {
		return nil, err
	}
	return unsafe.Slice(unsafe.StringData(b.String()), b.Len()), nil // nobody else has the string
}

// clockedReader reads in pieces, and ends the guest before one when its call is over.
type clockedReader struct {
	ctx  context.Context //nolint:containedctx // it lives within one host call
	from io.Reader
}

// Read implements [io.Reader].
func (r clockedReader) Read(b []byte) (int, error) {
	sandbox.Check(r.ctx)
	return r.from.Read(b[:min(len(b), pieceBytes)])
}

// mounts checks what a program is to see. Symbolic links that lead out of the base
// directories are refused here; those inside a mount, by the mount.
func (r programFiles) mounts(ctx context.Context, asked []*wasmnodev1.Mount) ([]workload.Mount, error) {
	out := make([]workload.Mount, 0, len(asked))
	for _, m := range asked {
		sandbox.Check(ctx)
		if !filepath.IsAbs(m.GetTaskPath()) {
			return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("mount target %q is not absolute", plaintext.Line(m.GetTaskPath(), 256)))
		}
		base, rest, err := r.resolve(m.GetHostPath(), false)
		if err != nil {
			return nil, err
		}
		if err := present(base, rest); err != nil {
			return nil, fileError("mount", m.GetHostPath(), err)
		}
		mount := mountOf(m)
		mount.HostPath = filepath.Join(base, rest)
		mount.ReadOnly = mount.ReadOnly || slices.Contains(r.readOnly, base)
		out = append(out, mount)
	}
	return out, nil
}

// input is the file that is a program's standard input; nil for no path.
func (r programFiles) input(path string) (*workload.Mount, error) {
	if path == "" {
		return nil, nil
	}
	base, rest, err := r.resolve(path, true)
	if err != nil {
		return nil, err
	}
	return &workload.Mount{HostPath: filepath.Join(base, rest), Within: base, ReadOnly: true}, nil
}

// present returns an error unless rest exists in a directory, through symbolic links too. What
// the node itself mounts may be a single file, which is then the base.
func present(base, rest string) error {
	if info, err := os.Lstat(base); err == nil && info.Mode().IsRegular() && rest == "." {
		base, rest = filepath.Dir(base), filepath.Base(base)
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	defer root.Close()
	_, err = root.Stat(rest)
	return err
}

// fileError describes to a guest why a file cannot be read, without more of the host than it
// named itself.
func fileError(what, path string, err error) error {
	code := abi.FailedPrecondition
	var pathErr *os.PathError
	switch {
	case errors.Is(err, os.ErrNotExist):
		code = abi.NotFound
	case errors.Is(err, os.ErrPermission):
		code = abi.PermissionDenied
	}
	cause := err
	if errors.As(err, &pathErr) {
		cause = pathErr.Err
	}
	return abi.NewError(code, fmt.Sprintf("%s %s: %v", what, plaintext.Line(path, 256), cause))
}
