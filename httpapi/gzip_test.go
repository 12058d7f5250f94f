package httpapi_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func TestAnswersAreCompressedForWhoeverTakesThatAndStreamsAreNot(t *testing.T) {
	w := newWorld(t, "mock")
	stub := w.run(t, mock("packed", map[string]any{"stdout_string": strings.Repeat("x", 5000)}), nomad.AllocClientStatusRunning)
	large, small := "/v1/allocation/"+stub.ID, "/v1/regions"
	for _, c := range []struct {
		path, accept string
		packed       bool
	}{
		{large, "gzip", true},
		{large, "GZIP", true},
		{large, "deflate, gzip;q=0.5", true},
		{large, "*", true},
		{large, "", false},
		{large, "identity", false},
		{large, "deflate", false},
		{large, "gzip;q=0", false},
		{large, "gzip; q=0.0, *", false},
		{large, "*;q=0", false},
		{small, "gzip", false},
		{"/v1/jobs?region=eu", "gzip", false},
		{"/v1/client/fs/logs/" + stub.ID + "?task=task&type=stdout&plain=true", "gzip", false},
		{"/v1/client/fs/cat/" + stub.ID + "?path=alloc/logs/task.stdout.0", "gzip", false},
	} {
		r := w.do(t, http.MethodGet, c.path, "", "Accept-Encoding", c.accept)
		require.Equal(t, c.packed, r.header.Get("Content-Encoding") == "gzip", "%s %q", c.path, c.accept)
		if !c.packed || c.path != large {
			continue
		}
		require.Equal(t, "Accept-Encoding", r.header.Get("Vary"))
		z, err := gzip.NewReader(strings.NewReader(r.body))
		require.NoError(t, err)
		text, err := io.ReadAll(z)
		require.NoError(t, err)
		require.Equal(t, len(w.do(t, http.MethodGet, c.path, "", "Accept-Encoding", "identity").body), len(text))
	}
	// A part of a file is asked for by parameters, and is never packed.
	r := w.do(t, http.MethodGet, "/v1/client/fs/readat/"+stub.ID+"?path=alloc/logs/task.stdout.0&offset=10&limit=3000", "", "Accept-Encoding", "gzip", "Range", "bytes=1-2")
	require.Equal(t, http.StatusOK, r.status)
	require.Len(t, r.body, 3000)
}
