package httpapi_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/httpapi/access"
)

// Who asks for large answers and does not read them, which a token may do that can only read,
// does not fill the agent's memory with them.
func TestAnswersThatNobodyReadsAreBounded(t *testing.T) {
	const size = 9 << 20 // above what the kernel takes of an answer
	l := access.DefaultLimits()
	l.Answers = 2 * size
	bounds := access.NewBounds(l)
	g := serveGuarded(t, func(c *httpapi.Config) { c.Bounds = bounds })
	body := fmt.Sprintf(`{"Job":{"ID":"large","Datacenters":["nowhere"],"Meta":{"m":%q},"TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"mock_driver"}]}]}}`,
		strings.Repeat("x", size))
	status, text := g.send(t, http.MethodPut, "/v1/jobs", body)
	require.Equal(t, http.StatusOK, status, text)
	var open []net.Conn
	for range 3 {
		c := g.dial(t)
		require.NoError(t, c.(*net.TCPConn).SetReadBuffer(4096))
		_, err := io.WriteString(c, "GET /v1/job/large?index=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		open = append(open, c)
	}
	require.Eventually(t, func() bool { return refused(t, bounds, "large answers") == 2 }, time.Minute, time.Millisecond,
		"a job is a little larger than its metadata: two are above the limit")
	status, _ = g.send(t, http.MethodGet, "/v1/jobs", "")
	require.Equal(t, http.StatusOK, status, "small ones are answered")
	for _, c := range open {
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool {
		status, _ := g.send(t, http.MethodGet, "/v1/job/large", "", "Accept-Encoding", "identity")
		return status == http.StatusOK
	}, time.Minute, time.Millisecond, "what has ended makes room")
}

// A request that was read and then waits for a change has no body any more: it keeps nobody
// from writing.
func TestARequestThatWaitsIsNoBody(t *testing.T) {
	bounds := small()
	g := serveGuarded(t, func(c *httpapi.Config) { c.Bounds = bounds })
	for range 2 {
		_, err := io.WriteString(g.dial(t), "POST /v1/jobs/statuses?index=1000000 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return measured(t, bounds, "wasmnode_http_in_flight", "streams") == 2 }, time.Minute, time.Millisecond)
	require.Zero(t, measured(t, bounds, "wasmnode_http_in_flight", "bodies"))
	status, text := g.send(t, http.MethodPost, "/v1/jobs/statuses?index=1000000", "{}")
	require.Equal(t, http.StatusTooManyRequests, status, text)
	status, _ = g.send(t, http.MethodPut, "/v1/search", `{"Context":"all"}`)
	require.Equal(t, http.StatusOK, status)
}

func TestTheNamedJobsOfARequestAreBounded(t *testing.T) {
	g := serveGuarded(t, func(*httpapi.Config) {})
	for jobs, want := range map[string]int{
		strings.Repeat(`{"ID":"j"},`, 1000):                  http.StatusOK,
		strings.Repeat(`{"ID":"j"},`, 1001):                  http.StatusBadRequest,
		`{"ID":"` + strings.Repeat("x", (256<<10)+1) + `"},`: http.StatusBadRequest,
		strings.Repeat("0,", 256<<10):                        http.StatusRequestEntityTooLarge,
	} {
		status, text := g.send(t, http.MethodPost, "/v1/jobs/statuses", `{"Jobs":[`+strings.TrimSuffix(jobs, ",")+`]}`)
		require.Equal(t, want, status, text)
	}
}
