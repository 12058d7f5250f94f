package agent

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/structs/errdefs"
	"github.com/wasmnode/wasmnode/trial"
)

// pluginsAPI is the catalog as the HTTP API needs it.
type pluginsAPI struct {
	catalog *catalog.Catalog
	host    *host.Host
	logger  hclog.Logger
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

// Record implements httpapi.Plugins.
func (p pluginsAPI) Record(name string, longest time.Duration, bytes int) (httpapi.PluginStream, error) {
	l, err := trial.RecordLive(p.host, name, trial.LiveBounds{Time: longest, Bytes: bytes})
	switch {
	case errors.Is(err, host.ErrNoPlugin):
		return nil, errdefs.New(errdefs.NotFound, "no plugin %q is loaded", catalog.Printable(name))
	case err != nil:
		return nil, errdefs.New(errdefs.FailedPrecondition, "%v", err)
	}
	p.logger.Info("the calls of a plugin are recorded", "plugin", name, "for_at_most", longest)
	return pluginStream[trial.LivePart]{l, func() {
		l.Close()
		p.logger.Info("the calls of a plugin are not recorded any more", "plugin", name)
	}}, nil
}

// RecordBounds implements [httpapi.Plugins].
func (pluginsAPI) RecordBounds() httpapi.RecordBounds {
	return httpapi.RecordBounds{
		DefaultTime: trial.DefaultLiveTime, MaxTime: trial.MaxLiveTime,
		DefaultBytes: trial.DefaultLiveBytes, MaxBytes: trial.MaxLiveBytes,
	}
}

// entryReader is a place in what is told of a plugin.
type entryReader[T any] interface {
	Read() (entry T, lost uint64, err error)
	Wait(ctx context.Context) (entry T, lost uint64, err error)
}

// pluginStream is a reader as the API needs it.
type pluginStream[T any] struct {
	reader entryReader[T]
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
