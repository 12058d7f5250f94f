package workload

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/wasmnode/wasmnode/abi"
)

// OpenInput opens the file that a mount is of, to be a standard input: a regular one in Within,
// through symbolic links too; without Within, in its own directory. The caller closes it.
//
// # Errors
//
// NOT_FOUND, and INVALID_ARGUMENT for what is no file or is not in there.
func (m *Mount) OpenInput() (*os.File, error) {
	f, err := m.openFile()
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, m.inputError(abi.NotFound, err)
	case err != nil:
		return nil, m.inputError(abi.InvalidArgument, err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close() // nothing was written to it
		return nil, m.inputError(abi.InvalidArgument, cmp.Or(err, errors.New("it is not a file")))
	}
	return f, nil
}

func (m *Mount) inputError(code abi.Code, err error) error {
	return abi.NewError(code, fmt.Sprintf("standard input %s: %v", m.HostPath, err))
}

func (m *Mount) openFile() (*os.File, error) {
	within := m.Within
	if within == "" {
		within = filepath.Dir(m.HostPath)
	}
	rest, err := filepath.Rel(within, m.HostPath)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(within)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if info, err := root.Stat(rest); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("it is not a file") // opening a device can have effects
	}
	return root.OpenFile(rest, os.O_RDONLY|syscall.O_NONBLOCK, 0) // not blocking, in case it is a FIFO
}
