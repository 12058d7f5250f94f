package httpapi

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// gcMethods are the methods that have a client collect its garbage: Nomad's own Go
// client uses GET.
var gcMethods = []string{http.MethodGet, http.MethodPut, http.MethodPost}

func (h *handler) clientRoutes() {
	h.put("/v1/client/allocation/{id}/restart", h.restartAllocation)
	h.put("/v1/client/allocation/{id}/signal", h.signalAllocation)
	h.method("/v1/client/allocation/{id}/exec", h.execTask, http.MethodGet)
	h.get("/v1/client/allocation/{id}/stats", tableAllocations, h.allocationStats)
	h.get("/v1/client/allocation/{id}/checks", tableAllocations, h.allocationChecks)
	h.get("/v1/allocation/{id}/checks", tableAllocations, h.allocationChecks)
	h.method("/v1/client/allocation/{id}/gc", h.writing(h.collectAllocation), gcMethods...)
	h.method("/v1/client/gc", h.collectNode, gcMethods...)
	h.get("/v1/client/stats", tableNodes, h.hostStats)
	h.get("/v1/client/metadata", tableNodes, h.readMetadata)
	h.put("/v1/client/metadata", h.applyMetadata)
	h.get("/v1/client/fs/ls/{id}", tableAllocations, h.listFiles)
	h.get("/v1/client/fs/stat/{id}", tableAllocations, h.statFile)
	h.method("/v1/client/fs/cat/{id}", h.catFile, http.MethodGet)
	h.method("/v1/client/fs/readat/{id}", h.readFileAt, http.MethodGet)
	h.method("/v1/client/fs/stream/{id}", h.streamFile, http.MethodGet)
	h.method("/v1/client/fs/logs/{id}", h.streamLogs, http.MethodGet)
}

func (h *handler) restartAllocation(r *http.Request) (any, error) {
	var req nomad.AllocationRestartRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if req.AllTasks && req.TaskName != "" {
		return nil, badRequest("can't restart all tasks and task %q: name a task or none", req.TaskName)
	}
	err := h.Node.RestartAllocation(r.Context(), r.PathValue("id"), req.TaskName, req.AllTasks)
	return acted{}, h.unknownAllocation(r, err)
}

func (h *handler) signalAllocation(r *http.Request) (any, error) {
	var req nomad.AllocSignalRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	err := h.Node.SignalAllocation(r.Context(), r.PathValue("id"), req.Task, req.Signal)
	return acted{}, h.unknownAllocation(r, err)
}

// acted is the answer to what the node has done. It has no index of its own: Nomad says 0.
type acted struct{ Index uint64 }

func (h *handler) allocationStats(r *http.Request, _ *query) (answer, error) {
	usage, err := h.Node.AllocationUsage(r.Context(), r.PathValue("id"), r.URL.Query().Get("task"))
	if err != nil {
		return answer{}, h.unknownAllocation(r, err)
	}
	return answer{body: clientapi.AllocationUsage(usage)}, nil
}

// allocationChecks answers that an allocation which has left the node has none: Nomad's
// tools ask for them with every status.
func (h *handler) allocationChecks(r *http.Request, _ *query) (answer, error) {
	id := r.PathValue("id")
	results, err := h.Node.AllocationChecks(id)
	if errors.Is(err, errdefs.NotFound) && h.ControlPlane.Allocation(id) != nil {
		return answer{body: map[string]structs.CheckResult{}}, nil
	}
	return answer{body: results}, h.unknownAllocation(r, err)
}

func (h *handler) collectAllocation(r *http.Request) (any, error) {
	return struct{}{}, h.unknownAllocation(r, h.Node.CollectAllocation(r.Context(), r.PathValue("id")))
}

// collectNode answers without a body: Nomad's Go client fails on any other here.
func (h *handler) collectNode(_ http.ResponseWriter, r *http.Request) error {
	if err := h.checkNode(r); err != nil {
		return err
	}
	h.Node.CollectGarbage(r.Context())
	return nil
}

// unknownAllocation gives the error for an allocation that is not here the text for that.
func (h *handler) unknownAllocation(r *http.Request, err error) error {
	id := r.PathValue("id")
	if errors.Is(err, errdefs.NotFound) && h.ControlPlane.Allocation(id) == nil {
		return h.notHere(id)
	}
	return err
}

func (h *handler) hostStats(r *http.Request, _ *query) (answer, error) {
	if err := h.checkNode(r); err != nil {
		return answer{}, err
	}
	usage, err := h.Node.HostUsage()
	if err != nil {
		return answer{}, err
	}
	return answer{body: clientapi.HostUsage(usage, time.Now())}, nil
}

// files opens the directory of the allocation that the request names.
func (h *handler) files(r *http.Request) (clientapi.Files, error) {
	files, err := h.Node.Files(r.PathValue("id"))
	return files, h.unknownAllocation(r, err)
}

func (h *handler) listFiles(r *http.Request, _ *query) (answer, error) {
	files, err := h.files(r)
	if err != nil {
		return answer{}, err
	}
	entries, err := files.List(r.URL.Query().Get("path"))
	if err != nil {
		return answer{}, err
	}
	return answer{body: clientapi.FileInfos(entries)}, nil
}

func (h *handler) statFile(r *http.Request, _ *query) (answer, error) {
	files, err := h.files(r)
	if err != nil {
		return answer{}, err
	}
	info, err := clientapi.Stat(files, r.URL.Query().Get("path"))
	if err != nil {
		return answer{}, err
	}
	return answer{body: info}, nil
}

func (h *handler) catFile(w http.ResponseWriter, r *http.Request) error {
	return h.sendFile(w, r, 0, -1)
}

func (h *handler) readFileAt(w http.ResponseWriter, r *http.Request) error {
	v := r.URL.Query()
	offset, err := strconv.ParseInt(v.Get("offset"), 10, 64)
	if err != nil || offset < 0 {
		return badRequest("error parsing offset: %q is not a byte count", v.Get("offset"))
	}
	limit := int64(-1)
	if s := v.Get("limit"); s != "" {
		if limit, err = strconv.ParseInt(s, 10, 64); err != nil {
			return badRequest("error parsing limit: %q is not a byte count", s)
		}
	}
	return h.sendFile(w, r, offset, limit)
}

// sendFile sends a file from offset on, at most limit bytes unless that is negative.
func (h *handler) sendFile(w http.ResponseWriter, r *http.Request, offset, limit int64) error {
	files, err := h.files(r)
	if err != nil {
		return err
	}
	path := r.URL.Query().Get("path")
	info, err := files.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir {
		return badRequest("%s is a directory", path)
	}
	f, err := files.ReadAt(path, offset)
	if err != nil {
		return err
	}
	defer f.Close()
	var source io.Reader = f
	if limit >= 0 {
		source = io.LimitReader(f, limit)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if _, err := io.Copy(w, source); err != nil && !errors.Is(err, r.Context().Err()) {
		// The status is sent: all that is left is to end the answer short.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// readMetadata tells the node's metadata, and where it is from.
func (h *handler) readMetadata(r *http.Request, _ *query) (answer, error) {
	if err := h.checkNode(r); err != nil {
		return answer{}, err
	}
	return answer{body: clientapi.Metadata(h.Node.Metadata())}, nil
}

// applyMetadata changes the node's metadata.
func (h *handler) applyMetadata(r *http.Request) (any, error) {
	var req nomad.NodeMetaApplyRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	switch {
	case req.NodeID == "" || req.NodeID == h.Agent.NodeID:
	case h.Servers != nil:
		return h.applyElsewhere(r, &req)
	default:
		return nil, notFound("Unknown node %q", req.NodeID)
	}
	if len(req.Meta) == 0 {
		return nil, badRequest("missing required Meta object")
	}
	m, err := h.Node.ApplyMetadata(r.Context(), req.Meta)
	if err != nil {
		return nil, err
	}
	return clientapi.Metadata(m), nil
}
