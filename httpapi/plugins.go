package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/wasmnode/wasmnode/clientapi"
)

// pluginHeartbeat is how often a stream about a plugin that has nothing to tell says so.
const pluginHeartbeat = 10 * time.Second

// defaultPluginLines is how many lines of a plugin's log are sent that are not asked for.
const defaultPluginLines = 100

func (h *handler) pluginRoutes() {
	h.get("/v1/agent/plugins", tableNodes, func(*http.Request, *query) (answer, error) {
		return answer{body: h.Plugins.Status()}, nil
	})
	h.get("/v1/agent/plugin/{name}/schema", tableNodes, func(r *http.Request, _ *query) (answer, error) {
		d, err := h.Plugins.Description(r.PathValue("name"))
		return answer{body: d}, err
	})
	h.method("/v1/agent/plugin/{name}/logs", h.pluginLogs, http.MethodGet)
	h.method("/v1/agent/plugin/{name}/trace", h.pluginTrace, http.MethodGet)
	h.method("/v1/agent/plugin/{name}/record", h.pluginRecord, http.MethodGet)
}

// pluginLogs sends the last lines that plugins of a name have logged, an object of JSON each,
// and with follow=true those that come.
func (h *handler) pluginLogs(w http.ResponseWriter, r *http.Request) error {
	lines := defaultPluginLines
	if s := r.URL.Query().Get("lines"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return badRequest("lines: %q is not a number of lines", s)
		}
		lines = n
	}
	follow, err := boolParameter(r, "follow")
	if err != nil {
		return err
	}
	stream := h.Plugins.Log(r.PathValue("name"), lines)
	if stream == nil {
		return noPlugin(r)
	}
	return sendPlugin(w, r, stream, follow)
}

// pluginTrace sends the calls of plugins of a name from now on, each once it has ended.
func (h *handler) pluginTrace(w http.ResponseWriter, r *http.Request) error {
	stream := h.Plugins.Trace(r.PathValue("name"))
	if stream == nil {
		return noPlugin(r)
	}
	return sendPlugin(w, r, stream, true)
}

// pluginRecord records the calls of plugins of a name from now on, and sends each once it has ended.
// It shows what no other endpoint does: where there are no ACLs the configuration has to say so.
func (h *handler) pluginRecord(w http.ResponseWriter, r *http.Request) error {
	if err := h.mayDebug(); err != nil {
		return err
	}
	bounds := h.Plugins.RecordBounds()
	longest, bytes := bounds.DefaultTime, bounds.DefaultBytes
	var err error
	if s := r.URL.Query().Get("for"); s != "" {
		if longest, err = time.ParseDuration(s); err != nil || longest <= 0 || longest > bounds.MaxTime {
			return badRequest("for: %q is not a time of at most %v, such as 10m", s, bounds.MaxTime)
		}
	}
	if s := r.URL.Query().Get("bytes"); s != "" {
		if bytes, err = strconv.Atoi(s); err != nil || bytes <= 0 || bytes > bounds.MaxBytes {
			return badRequest("bytes: %q is not a number of bytes of at most %d", s, bounds.MaxBytes)
		}
	}
	stream, err := h.Plugins.Record(r.PathValue("name"), longest, bytes)
	if err != nil {
		return err
	}
	return sendPlugin(w, r, stream, true)
}

func noPlugin(r *http.Request) error {
	return notFound("no plugin %q has been loaded since the agent was started", r.PathValue("name"))
}

// sendPlugin sends a stream's entries, one a line. A client that reads too slowly loses the
// oldest, and a line says how many.
func sendPlugin(w http.ResponseWriter, r *http.Request, stream PluginStream, follow bool) error {
	defer stream.Close()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache")
	out := &eventWriter{w: w, flush: http.NewResponseController(w)}
	if err := out.line([]byte("{}")); err != nil {
		return nil // the client is gone
	}
	defer clientapi.AtIntervals(r.Context(), pluginHeartbeat, out.heartbeat)()
	for {
		entry, lost, err := nextOf(r.Context(), stream, follow)
		if err != nil {
			return nil // the end, or the client is gone, or the agent ends
		}
		if lost > 0 {
			if err := out.line(fmt.Appendf(nil, `{"Lost":%d}`, lost)); err != nil {
				return nil
			}
		}
		line, err := json.Marshal(entry)
		if err != nil {
			return err
		}
		if err := out.line(line); err != nil {
			return nil
		}
	}
}

func nextOf(ctx context.Context, stream PluginStream, wait bool) (entry any, lost uint64, err error) {
	if wait {
		return stream.Wait(ctx)
	}
	return stream.Read()
}
