package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"strconv"
)

// maxSnapshot bounds a snapshot that is sent here, packed: 1 GiB.
const maxSnapshot = 1 << 30

func (h *handler) snapshotRoutes() {
	h.method("/v1/operator/snapshot", h.saveSnapshot, http.MethodGet)
	h.put("/v1/operator/snapshot", h.restoreSnapshot)
}

// saveSnapshot sends a snapshot, after its digest, by which Nomad's clients know that they
// have all of it. It is written to a file first: a slow client keeps nobody else waiting.
func (h *handler) saveSnapshot(w http.ResponseWriter, r *http.Request) error {
	file, err := os.CreateTemp("", "wasmnode-snapshot-")
	if err != nil {
		return err
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return err
	}
	sum := sha256.New()
	if err := h.ControlPlane.SaveSnapshot(io.MultiWriter(file, sum)); err != nil {
		return err
	}
	size, err := file.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-gzip")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	w.Header().Set("Digest", "sha-256="+base64.StdEncoding.EncodeToString(sum.Sum(nil)))
	if _, err := io.Copy(w, file); err != nil && r.Context().Err() == nil {
		panic(http.ErrAbortHandler) // the status is sent
	}
	return nil
}

func (h *handler) restoreSnapshot(r *http.Request) (any, error) {
	return struct{}{}, h.ControlPlane.RestoreSnapshot(http.MaxBytesReader(nil, r.Body, maxSnapshot))
}
