package agent

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

const diskOf = "00000000-0000-4000-8000-000000000001"

// startDisks serves the disk of an allocation for who has the token "right".
func startDisks(t *testing.T) (*disks, *allocdir.Dir, *httptest.Server) {
	t.Helper()
	dir := allocdir.New(t.TempDir(), diskOf)
	require.NoError(t, dir.Build())
	var starting atomic.Int32 // the first answers are of a node that is
	starting.Store(2)
	d := &disks{
		next: http.NotFoundHandler(), places: semaphore.NewWeighted(1), patience: time.Minute, warn: func(string, ...any) {},
		may: func(_, token string) error {
			if token != "right" {
				return errdefs.New(errdefs.PermissionDenied, "Permission denied")
			}
			return nil
		},
		directory: func(id string) (*allocdir.Dir, error) {
			if starting.Add(-1) >= 0 {
				return nil, errdefs.NewRecoverable(errdefs.Unavailable, "the node is restoring its allocations")
			}
			if id != diskOf {
				return nil, errdefs.New(errdefs.NotFound, "unknown allocation %q", id)
			}
			return dir, nil
		},
	}
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	return d, dir, server
}

func askForDisk(t *testing.T, url, header, token string) (code int, body io.Reader) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	request.Header.Set(header, token)
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { response.Body.Close() })
	return response.StatusCode, response.Body
}

func TestAnotherNodeTakesADiskWithItsToken(t *testing.T) {
	_, dir, server := startDisks(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir.Data(), "f"), []byte("content"), 0o600))
	path := "/v1/client/allocation/" + diskOf + "/snapshot"
	for _, c := range []struct {
		path, header, token string
		code                int
	}{
		{path, "X-Nomad-Token", "right", http.StatusOK},
		{path, "Authorization", "Bearer right", http.StatusOK},
		{path, "X-Nomad-Token", "wrong", http.StatusForbidden},
		{path, "X-Nomad-Token", "", http.StatusForbidden},
		{"/v1/client/allocation/00000000-0000-4000-8000-000000000002/snapshot", "X-Nomad-Token", "right", http.StatusNotFound},
		{"/v1/client/allocation/" + diskOf + "/stats", "X-Nomad-Token", "right", http.StatusNotFound},
	} {
		code, body := askForDisk(t, server.URL+c.path, c.header, c.token)
		require.Equal(t, c.code, code, c.path)
		if c.code == http.StatusOK {
			to := allocdir.New(t.TempDir(), "a")
			require.NoError(t, to.Build())
			_, err := to.Unpack(t.Context(), body, nil, 1)
			require.NoError(t, err)
			require.FileExists(t, filepath.Join(to.Data(), "f"))
		}
	}
}

// A file that is cut while it is sent, and who does not read, leave no disk that looks whole.
func TestADiskThatBreaksOffIsNotWhole(t *testing.T) {
	d, dir, server := startDisks(t)
	d.patience = 50 * time.Millisecond
	big := filepath.Join(dir.Data(), "big")
	require.NoError(t, os.WriteFile(big, nil, 0o600))
	require.NoError(t, os.Truncate(big, 1<<30))
	_, body := askForDisk(t, server.URL+"/v1/client/allocation/"+diskOf+"/snapshot", "X-Nomad-Token", "right")
	require.Eventually(t, func() bool { return d.places.TryAcquire(1) }, 30*time.Second, time.Millisecond, "nobody reads")
	d.places.Release(1)
	_, err := io.Copy(io.Discard, body)
	var network net.Error
	require.True(t, errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network), "%v", err)

	// What cannot be read is said in the archive, which is whole.
	require.NoError(t, os.Remove(big))
	require.NoError(t, os.MkdirAll(filepath.Join(dir.Data(), strings.Repeat("d/", 200)), 0o755))
	d.patience = time.Minute
	_, body = askForDisk(t, server.URL+"/v1/client/allocation/"+diskOf+"/snapshot", "X-Nomad-Token", "right")
	all, err := io.ReadAll(body)
	require.NoError(t, err)
	require.Contains(t, string(all), "NOMAD-"+diskOf+"-ERROR.log")
}
