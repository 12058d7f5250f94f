package access

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Bodies are the scarcest, for the memory that they take. None is counted as something else
// for the words that come with it.
func TestWhatARequestIsCountedAs(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		want               Kind
		headers            http.Header
	}{
		{http.MethodGet, "/v1/jobs", "", Reads, nil},
		{http.MethodGet, "/v1/jobs", "{}", Bodies, nil},
		{http.MethodGet, "/v1/jobs?index=1", "", Streams, nil},
		{http.MethodGet, "/v1/jobs?index=1", "{}", Streams, nil},
		{http.MethodGet, "/v1/client/fs/logs/x", "", Streams, nil},
		{http.MethodGet, "/v1/event/stream?topic=Job", "", Streams, nil},
		{http.MethodGet, "/v1/agent/monitor", "", Streams, nil},
		{http.MethodGet, "/v1/agent/monitor/export?service_name=nomad", "", Streams, nil},
		{http.MethodGet, "/v1/client/allocation/x/exec", "", Streams, http.Header{"Upgrade": {"websocket"}}},
		{http.MethodPut, "/v1/jobs", "{}", Bodies, nil},
		{http.MethodPut, "/v1/jobs", "{}", Bodies, http.Header{"Upgrade": {"h2c"}}},
		{http.MethodPost, "/v1/jobs?index=1", "{}", Bodies, nil},
		{http.MethodDelete, "/v1/client/fs/x", "{}", Bodies, nil},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		if c.headers != nil {
			r.Header = c.headers
		}
		require.Equal(t, c.want, KindOf(r), "%s %s %q %v", c.method, c.path, c.body, c.headers)
	}
	r := httptest.NewRequest(http.MethodPut, "/v1/jobs?index=1", strings.NewReader("{}"))
	r.ContentLength = -1
	require.Equal(t, Bodies, KindOf(r), "one whose length is not told")
}
