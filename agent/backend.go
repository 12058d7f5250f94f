package agent

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/host/recent"
	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/node"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// clientAPI is the node as the HTTP API needs it.
type clientAPI struct{ *node.Node }

// Files implements httpapi.Node.
func (c clientAPI) Files(allocID string) (httpapi.Files, error) {
	dir, err := c.Directory(allocID)
	if err != nil {
		return nil, err
	}
	return files{dir}, nil
}

// files is an allocation's directory as the HTTP API needs it.
type files struct{ dir *allocdir.Dir }

// List implements httpapi.Files.
func (f files) List(path string) ([]httpapi.File, error) {
	entries, err := f.dir.List(path)
	if err != nil {
		return nil, fileError(err)
	}
	list := make([]httpapi.File, len(entries))
	for i, e := range entries {
		list[i] = httpapi.File(e)
	}
	return list, nil
}

// Stat implements httpapi.Files.
func (f files) Stat(path string) (httpapi.File, error) {
	e, err := f.dir.Stat(path)
	if err != nil {
		return httpapi.File{}, fileError(err)
	}
	return httpapi.File(e), nil
}

// ReadAt implements httpapi.Files.
func (f files) ReadAt(path string, offset int64) (io.ReadCloser, error) {
	r, err := f.dir.Open(path, offset)
	if err != nil {
		return nil, fileError(err)
	}
	return r, nil
}

// LogPath implements httpapi.Files.
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

// pluginsAPI is the catalog as the HTTP API needs it.
type pluginsAPI struct {
	catalog *catalog.Catalog
	host    *host.Host
}

// Log implements httpapi.Plugins.
func (p pluginsAPI) Log(name string, lines int) httpapi.PluginStream {
	if r := p.host.LogLines(name, lines); r != nil {
		return pluginStream[host.LogLine]{r, func() {}}
	}
	return nil
}

// Trace implements httpapi.Plugins.
func (p pluginsAPI) Trace(name string) httpapi.PluginStream {
	if r, stop := p.host.Trace(name); r != nil {
		return pluginStream[host.TracedCall]{r, stop}
	}
	return nil
}

// pluginStream is a reader as the API needs it.
type pluginStream[T any] struct {
	reader *recent.Reader[T]
	stop   func()
}

func (s pluginStream[T]) Read() (entry any, lost uint64, err error) { return s.reader.Read() }

func (s pluginStream[T]) Wait(ctx context.Context) (entry any, lost uint64, err error) {
	return s.reader.Wait(ctx)
}

func (s pluginStream[T]) Close() { s.stop() }

// Status implements httpapi.Plugins. A directory that cannot be read is listed as well, as
// a plugin would be that cannot work now: people look there when a file does not show.
func (p pluginsAPI) Status() any {
	list := p.catalog.Status()
	if d := p.catalog.Directory(); d.Problem != "" {
		list = append(list, catalog.PluginStatus{
			State: catalog.StateUnhealthy, Reason: d.Problem, Since: d.Since, File: d.Path,
			CapabilitiesImported: []string{}, CapabilitiesGranted: []string{},
		})
	}
	if list == nil {
		list = []catalog.PluginStatus{}
	}
	return list
}

// Description implements httpapi.Plugins.
func (p pluginsAPI) Description(name string) (any, error) {
	d, ok := p.catalog.Description(name)
	if !ok {
		return nil, errdefs.New(errdefs.NotFound, "no plugin %q is in service", catalog.Printable(name))
	}
	return d, nil
}
