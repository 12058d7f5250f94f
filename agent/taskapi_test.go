package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

// listenForTask makes the socket of a task.
func listenForTask(t *testing.T, name string) (net.Listener, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	return l, path
}

// askAt sends a request over a connection of its own to a socket.
func askAt(t *testing.T, path string) (body string, err error) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) }}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", nil)
	require.NoError(t, err)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func TestATasksSocketMayBeThereBeforeTheAPI(t *testing.T) {
	a := newTaskAPI()
	early, path := listenForTask(t, "early")
	stopEarly := a.ServeTask(early)
	gone, _ := listenForTask(t, "gone")
	a.ServeTask(gone)() // nobody served it
	answers := make(chan string, 1)
	go func() {
		body, _ := askAt(t, path)
		answers <- body
	}()
	a.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }), hclog.NewNullLogger())
	require.Equal(t, "hello", <-answers)

	other, otherPath := listenForTask(t, "other")
	stopOther := a.ServeTask(other)
	stopEarly()
	_, err := askAt(t, path)
	require.Error(t, err)
	body, err := askAt(t, otherPath)
	require.NoError(t, err)
	require.Equal(t, "hello", body, "each socket is closed alone")
	a.stop()
	_, err = askAt(t, otherPath)
	require.Error(t, err)
	stopOther() // the end of the agent comes first
}

func TestATasksConnectionsAreBoundedAndEndWithIt(t *testing.T) {
	a := newTaskAPI()
	a.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }), hclog.NewNullLogger())
	defer a.stop()
	l, path := listenForTask(t, "full")
	stop := a.ServeTask(l)
	next, nextPath := listenForTask(t, "next")
	defer a.ServeTask(next)()
	var held []net.Conn
	for range taskConnections {
		c, err := net.Dial("unix", path)
		require.NoError(t, err)
		defer func() { _ = c.Close() }() // its end is what counts
		_, err = fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		_, err = c.Read(make([]byte, 1)) // it is accepted
		require.NoError(t, err)
		held = append(held, c)
	}
	answers := make(chan string, 1)
	go func() {
		body, _ := askAt(t, path)
		answers <- body
	}()
	body, err := askAt(t, nextPath)
	require.NoError(t, err)
	require.Equal(t, "hello", body, "others have bounds of their own")
	require.Empty(t, answers, "one more waits")
	require.NoError(t, held[0].Close())
	require.Equal(t, "hello", <-answers)

	filled, err := net.Dial("unix", path) // full again
	require.NoError(t, err)
	defer func() { _ = filled.Close() }() // its end is what counts
	ended := make(chan struct{})
	go func() { defer close(ended); stop() }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the socket does not end while it is full")
	}
	_, _ = io.Copy(io.Discard, held[1]) // until its connection has ended
	_, err = askAt(t, path)
	require.Error(t, err)
}
