// Package registrytest is an OCI registry within a test: as much of one as plugins need, and
// as bad as the test wants.
package registrytest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Registry is a registry on this machine, without TLS.
type Registry struct {
	// Address is its host and port.
	Address string

	mu        sync.Mutex
	instead   func(w http.ResponseWriter, r *http.Request) bool
	blobs     map[string][]byte // by digest
	manifests map[string][]byte // by path: of a tag or a digest
}

// Start starts a registry, which ends with the test.
func Start(t testing.TB) *Registry {
	r := &Registry{blobs: map[string][]byte{}, manifests: map[string][]byte{}}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.Address = s.Listener.Addr().String()
	return r
}

// Reference returns that of a tag.
func (r *Registry) Reference(repository, tag string) string {
	return "oci://" + r.Address + "/" + repository + ":" + tag
}

// Instead has requests answered in the registry's place, where that reports that it has; nil:
// none is.
func (r *Registry) Instead(answer func(w http.ResponseWriter, r *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.instead = answer
}

// Put has a manifest under a tag, whatever it is.
func (r *Registry) Put(repository, tag string, manifest []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range []string{tag, Digest(manifest)} {
		r.manifests["/v2/"+repository+"/manifests/"+name] = manifest
	}
}

// Manifest returns what is under a tag; nil: nothing is.
func (r *Registry) Manifest(repository, tag string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.manifests["/v2/"+repository+"/manifests/"+tag]
}

// PutBlob has a blob under a digest, whatever it is.
func (r *Registry) PutBlob(digest string, content []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blobs[digest] = content
}

// Digest is a content's digest.
func Digest(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

// ServeHTTP implements [http.Handler].
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	instead := r.instead
	r.mu.Unlock()
	if instead != nil && instead(w, q) {
		return
	}
	body, _ := io.ReadAll(q.Body) // what is cut off has another digest
	path, digest := q.URL.Path, q.URL.Path[strings.LastIndexByte(q.URL.Path, '/')+1:]
	switch {
	case path == "/v2/": // it is a registry
	case q.Method == http.MethodPost && strings.HasSuffix(path, "/blobs/uploads/"):
		w.Header().Set("Location", path+"upload")
		w.WriteHeader(http.StatusAccepted)
	case q.Method == http.MethodPut && strings.HasSuffix(path, "/blobs/uploads/upload"):
		r.PutBlob(q.URL.Query().Get("digest"), body)
		w.WriteHeader(http.StatusCreated)
	case q.Method == http.MethodPut:
		repository, tag, _ := strings.Cut(strings.TrimPrefix(path, "/v2/"), "/manifests/")
		r.Put(repository, tag, body)
		w.Header().Set("Docker-Content-Digest", Digest(body))
		w.WriteHeader(http.StatusCreated)
	case strings.Contains(path, "/manifests/"):
		r.send(w, q, r.manifests, path, "application/vnd.oci.image.manifest.v1+json")
	default:
		r.send(w, q, r.blobs, digest, "application/octet-stream")
	}
}

// send answers with what is there.
func (r *Registry) send(w http.ResponseWriter, q *http.Request, of map[string][]byte, key, mediaType string) {
	r.mu.Lock()
	content, found := of[key]
	r.mu.Unlock()
	if !found {
		http.Error(w, `{"errors": [{"code": "UNKNOWN", "message": "not here"}]}`, http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Docker-Content-Digest", Digest(content))
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	if q.Method != http.MethodHead {
		_, _ = w.Write(content) // whoever asked may be gone
	}
}
