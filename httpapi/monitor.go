package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/pprof"
	"runtime"
	runtimepprof "runtime/pprof"
	"strconv"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/workload/logfile"
)

// monitorLines is how many lines of the log a client may be behind; further ones are lost to
// it, and it is told how many.
const monitorLines = 512

// LogSinks is where lines of the log can be had from, as they are written.
type LogSinks interface {
	RegisterSink(sink hclog.SinkAdapter)
	DeregisterSink(sink hclog.SinkAdapter)
}

func (h *handler) monitorRoutes() {
	h.method("/v1/agent/monitor", h.monitor, http.MethodGet)
	h.method("/v1/agent/monitor/export", h.monitorExport, http.MethodGet)
	h.method("/v1/agent/pprof/{profile}", h.profile, http.MethodGet)
}

// monitor sends the agent's log from now on: as frames of JSON, or as it is with plain=true.
func (h *handler) monitor(w http.ResponseWriter, r *http.Request) error {
	if h.Logs == nil {
		return noEndpoint(r)
	}
	opts, err := monitorOptions(r)
	if err != nil {
		return err
	}
	if err := h.checkAgent(r); err != nil {
		return err
	}
	plain, err := boolParameter(r, "plain")
	if err != nil {
		return err
	}
	lines := &logLines{lines: make(chan []byte, monitorLines)}
	opts.Output = lines
	adapter := hclog.NewSinkAdapter(opts)
	h.Logs.RegisterSink(adapter)
	defer h.Logs.DeregisterSink(adapter)
	sink := newFrameSink(w, plain, "")
	if err := sink.open(); err != nil {
		return nil // the client is gone
	}
	defer sink.heartbeats(r.Context())()
	for {
		select {
		case <-r.Context().Done():
			return nil
		case line := <-lines.lines:
			if lost := lines.takeLost(); lost > 0 {
				line = append(fmt.Appendf(nil, "[WARN] monitor: %d lines are lost: they are not read as fast as they are written\n", lost), line...)
			}
			if err := sink.send(logfile.Chunk{Data: line}); err != nil {
				return nil // the client is gone
			}
		}
	}
}

// checkAgent refuses a request that is meant for another agent, as a node or as a server.
func (h *handler) checkAgent(r *http.Request) error {
	node, server := r.URL.Query().Get("node_id"), r.URL.Query().Get("server_id")
	if node != "" && server != "" {
		return badRequest("Cannot target node and server simultaneously")
	}
	if server != "" && server != "leader" && server != h.Agent.Name && server != h.Agent.Name+"."+h.Agent.Region {
		return notFound("unknown Nomad server %s", server)
	}
	return h.checkNodeID(cmp.Or(node, r.URL.Query().Get("client_id"))) // Nomad's UI says client_id
}

func monitorOptions(r *http.Request) (*hclog.LoggerOptions, error) {
	v := r.URL.Query()
	level := v.Get("log_level")
	if level == "" {
		level = "INFO"
	}
	opts := &hclog.LoggerOptions{Name: "wasmnode", Level: hclog.LevelFromString(level)}
	if opts.Level == hclog.NoLevel {
		return nil, badRequest("Unknown log level: %s", level)
	}
	for _, flag := range []struct {
		name, text string
		set        *bool
	}{{"log_json", "log json", &opts.JSONFormat}, {"log_include_location", "log location", &opts.IncludeLocation}} {
		if s := v.Get(flag.name); s != "" {
			is, err := strconv.ParseBool(s)
			if err != nil {
				return nil, badRequest("Unknown option for %s: %v", flag.text, err)
			}
			*flag.set = is
		}
	}
	return opts, nil
}

// logLines takes the lines of a log for one client. Whoever logs never waits for it.
type logLines struct {
	lines chan []byte // monitorLines
	mu    sync.Mutex
	lost  int
}

// Write implements [io.Writer]: one line a call.
func (l *logLines) Write(line []byte) (int, error) {
	select {
	case l.lines <- append([]byte(nil), line...):
	default:
		l.mu.Lock()
		l.lost++
		l.mu.Unlock()
	}
	return len(line), nil
}

func (l *logLines) takeLost() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.lost
	l.lost = 0
	return n
}

// profile shows what the agent itself is doing: with ACLs to who may do everything, without
// them where the configuration has it.
func (h *handler) profile(w http.ResponseWriter, r *http.Request) error {
	if err := h.mayDebug(); err != nil {
		return err
	}
	if err := h.checkAgent(r); err != nil {
		return err
	}
	switch name := r.PathValue("profile"); name {
	case "cmdline":
		pprof.Cmdline(w, r)
	case "profile":
		pprof.Profile(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		return lookUp(w, r, name)
	}
	return nil
}

// lookUp shows a profile as it is now. It is not measured for a while: the stock command line says
// for how long all the same.
func lookUp(w http.ResponseWriter, r *http.Request, name string) error {
	profile := runtimepprof.Lookup(name)
	if profile == nil {
		return notFound("Pprof profile not found profile: %s", name)
	}
	v := r.URL.Query()
	for _, parameter := range []string{"debug", "gc"} {
		if s := v.Get(parameter); s != "" {
			if _, err := strconv.Atoi(s); err != nil {
				return badRequest("Unknown option for %s: %v", parameter, err)
			}
		}
	}
	debug, _ := strconv.Atoi(v.Get("debug")) // a number, or none
	if gc, _ := strconv.Atoi(v.Get("gc")); gc > 0 && name == "heap" {
		runtime.GC()
	}
	kind := "application/octet-stream"
	if debug > 0 {
		kind = "text/plain; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	_ = profile.WriteTo(w, debug) // errors: the client is gone
	return nil
}
