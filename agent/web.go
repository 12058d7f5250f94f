package agent

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/internal/inflight"
)

// httpGrace is how long requests that are under way may take once the agent ends.
const httpGrace = 2 * time.Second

// web is the HTTP server.
type web struct {
	server   *http.Server
	serving  sync.WaitGroup
	end      context.CancelFunc
	tasks    *taskAPI
	requests inflight.Group // also those whose connections are the server's no more
}

// serve serves the API, and calls failed when it cannot go on. Requests end with it:
// those that wait for something return.
func (a *agent) serve(listeners []net.Listener, failed func(error)) *web {
	base, end := context.WithCancel(context.Background())
	w := &web{end: end, tasks: a.taskAPI}
	plane, servers := a.planeAPI()
	api, tasks := httpapi.Handlers(httpapi.Config{
		Logger:       a.logger.Named("http"),
		ControlPlane: plane,
		Servers:      servers,
		Node:         a.node,
		Plugins:      pluginsAPI{a.catalog, a.host, a.logger},
		Metrics:      a.newMetrics(),
		Telemetry:    a.shownMetrics(),
		Conditions:   a.currentConditions,
		Hosts:        a.cfg.Access.Hosts,
		ACL:          a.cfg.Access.ACL,
		NoPage:       !a.cfg.Access.Page,
		Debug:        a.cfg.EnableDebug,
		Reload:       a.askReload,
		Logs:         a.logs,
		Machine:      a.machine,
		Journal:      journal,
		Issuer:       a.cfg.Server.OIDCIssuer,
		Bounds:       a.bounds,
		Traces:       a.traces,
		Agent: httpapi.AgentInfo{
			NodeID: a.node.ID(), Name: a.cfg.Name, Region: a.cfg.Region,
			Datacenter: a.cfg.Datacenter, Version: Version, Address: a.address,
		},
	}, access.NewBounds(taskLimits()))
	a.taskAPI.serve(w.counted(tasks), a.logger.Named("task_api"))
	w.server = &http.Server{
		Handler:           w.counted(a.disks(api)),
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       access.ConnContext,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          log.New(&serverLog{a.logger.Named("http"), a.bounds.HandshakeFailed}, "", 0),
	}
	for _, l := range listeners {
		w.serving.Go(func() {
			if err := w.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				failed(fmt.Errorf("http: %w", err))
			}
		})
	}
	return w
}

// serverLog takes the lines that the HTTP server logs. Whoever connects without TLS to a port
// that has it makes one, so that those are no warnings, but are counted.
type serverLog struct {
	logger          hclog.Logger
	handshakeFailed func()
}

// Write implements [io.Writer].
func (l *serverLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if strings.HasPrefix(text, "http: TLS handshake error") {
		l.handshakeFailed()
		l.logger.Debug(text)
	} else {
		l.logger.Warn(text)
	}
	return len(line), nil
}

// counted counts requests, so that the agent does not end before them.
func (w *web) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !w.requests.Enter() {
			http.Error(rw, "the agent is shutting down", http.StatusServiceUnavailable)
			return
		}
		defer w.requests.Leave()
		next.ServeHTTP(rw, r)
	})
}

// stop ends the server and waits for what it has begun.
func (w *web) stop() {
	w.end()
	w.tasks.stop()
	ctx, cancel := context.WithTimeout(context.Background(), httpGrace)
	defer cancel()
	if w.server.Shutdown(ctx) != nil {
		_ = w.server.Close()
	}
	w.serving.Wait()
	w.requests.Close()
}
