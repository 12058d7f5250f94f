package node

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// Files implements [clientapi.Node].
func (n *Node) Files(allocID string) (clientapi.Files, error) {
	dir, err := n.Directory(allocID)
	if err != nil {
		return nil, err
	}
	return files{dir}, nil
}

// files are those of an allocation's directory, with errors that have classes.
type files struct{ dir *allocdir.Dir }

// List implements [clientapi.Files].
func (f files) List(path string) ([]clientapi.File, error) {
	entries, err := f.dir.List(path)
	if err != nil {
		return nil, fileError(err)
	}
	list := make([]clientapi.File, len(entries))
	for i, e := range entries {
		list[i] = clientapi.File(e)
	}
	return list, nil
}

// Stat implements [clientapi.Files].
func (f files) Stat(path string) (clientapi.File, error) {
	e, err := f.dir.Stat(path)
	if err != nil {
		return clientapi.File{}, fileError(err)
	}
	return clientapi.File(e), nil
}

// ReadAt implements [clientapi.Files].
func (f files) ReadAt(path string, offset int64) (io.ReadCloser, error) {
	r, err := f.dir.Open(path, offset)
	if err != nil {
		return nil, fileError(err)
	}
	return r, nil
}

// LogPath implements [clientapi.Files].
func (f files) LogPath(name, stream string) string {
	return filepath.Join(f.dir.Logs(), name+"."+stream)
}

// fileError gives an error its class.
func fileError(err error) error {
	class := errdefs.InvalidArgument
	switch {
	case errors.Is(err, fs.ErrNotExist):
		class = errdefs.NotFound
	case errors.Is(err, allocdir.ErrSecret), errors.Is(err, fs.ErrPermission):
		class = errdefs.PermissionDenied
	}
	return errdefs.New(class, "%v", err)
}
