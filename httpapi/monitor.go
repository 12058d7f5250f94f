package httpapi

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

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
	clientapi.Monitor(r.Context(), h.Logs, opts, newFrameSink(w, plain, "").Frames)
	return nil
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
	var json, location bool
	for _, flag := range []struct {
		name, text string
		set        *bool
	}{{"log_json", "log json", &json}, {"log_include_location", "log location", &location}} {
		if s := v.Get(flag.name); s != "" {
			is, err := strconv.ParseBool(s)
			if err != nil {
				return nil, badRequest("Unknown option for %s: %v", flag.text, err)
			}
			*flag.set = is
		}
	}
	return clientapi.MonitorOptions(v.Get("log_level"), json, location)
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
	return clientapi.Profile(w, r, r.PathValue("profile"))
}

// monitorExport sends what a service has logged: as frames of JSON, or as it is with
// plain=true.
func (h *handler) monitorExport(w http.ResponseWriter, r *http.Request) error {
	query, err := h.exportQuery(r)
	if err != nil {
		return err
	}
	plain, err := boolParameter(r, "plain")
	if err != nil {
		return err
	}
	sink := newFrameSink(w, plain, "")
	err = h.journals.Export(r.Context(), query, sink.Frames)
	switch {
	case err == nil:
		return sink.finish()
	case sink.begun():
		panic(http.ErrAbortHandler) // the status is sent: all that is left is to end the answer short
	case errors.Is(err, errdefs.ResourceExhausted):
		return &statusError{http.StatusTooManyRequests, err.Error()}
	}
	return err
}

// exportQuery reads what is to be exported.
func (h *handler) exportQuery(r *http.Request) (clientapi.JournalQuery, error) {
	v := r.URL.Query()
	e := clientapi.ExportQuery{Service: v.Get("service_name"), Since: v.Get("logs_since")}
	if err := h.checkAgent(r); err != nil {
		return clientapi.JournalQuery{}, err
	}
	var err error
	if e.OnDisk, err = boolParameter(r, "on_disk"); err != nil {
		return clientapi.JournalQuery{}, badRequest("Unknown value for on-disk: %v", err)
	}
	if e.Follow, err = boolParameter(r, "follow"); err != nil {
		return clientapi.JournalQuery{}, badRequest("Unknown value for follow: %v", err)
	}
	q, err := e.Journal()
	if errors.Is(err, clientapi.ErrNotOurUnit) || errors.Is(err, clientapi.ErrNoUnit) {
		err = &statusError{http.StatusUnprocessableEntity, err.Error()}
	}
	return q, err
}
