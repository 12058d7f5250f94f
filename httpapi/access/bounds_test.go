package access

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
		{http.MethodGet, "/v1/agent/plugin/x/logs?follow=true", "", Streams, nil},
		{http.MethodGet, "/v1/agent/plugin/x/trace", "", Streams, nil},
		{http.MethodGet, "/v1/agent/plugin/x/record?for=1h", "", Streams, nil},
		{http.MethodGet, "/v1/agent/plugin/x/schema", "", Reads, nil},
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
		require.Equal(t, c.want, kindOf(r), "%s %s %q %v", c.method, c.path, c.body, c.headers)
	}
	r := httptest.NewRequest(http.MethodPut, "/v1/jobs?index=1", strings.NewReader("{}"))
	r.ContentLength = -1
	require.Equal(t, Bodies, kindOf(r), "one whose length is not told")
}

// A request that becomes of another kind has one place at a time, and of that kind.
func TestARequestThatBecomesAnotherKindLeavesItsPlace(t *testing.T) {
	limits := DefaultLimits()
	limits.Bodies, limits.Streams, limits.Patience = 1, 1, time.Millisecond
	b := NewBounds(limits)
	ask := func() (*Seat, error) {
		return b.Enter(httptest.NewRequest(http.MethodPost, "/v1/jobs", strings.NewReader("{}")))
	}
	first, err := ask()
	require.NoError(t, err)
	_, err = ask()
	require.ErrorContains(t, err, "as many bodies")
	require.NoError(t, first.Become(Streams))
	require.NoError(t, first.Become(Streams), "it is one already")
	second, err := ask()
	require.NoError(t, err, "its place is free")
	require.ErrorContains(t, second.Become(Streams), "as many streams")
	_, err = ask()
	require.ErrorContains(t, err, "as many bodies", "it keeps the place that it has")
	first.Leave()
	require.NoError(t, second.Become(Streams))
	second.Leave()
	require.Empty(t, b.slots[Bodies])
	require.Empty(t, b.slots[Streams])
}
