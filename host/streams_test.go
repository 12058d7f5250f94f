package host_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// serveOn serves HTTP on a unix socket of its own.
func serveOn(t testing.TB, handler http.Handler) (socket string) {
	t.Helper()
	socket = filepath.Join(shortDir(t), "s.sock")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return socket
}

// shortDir is a directory without links in its path, which is not too long for a socket.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}

// engine is what the tests' guest talks to, as a container engine is talked to.
func engine() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/v1.43/containers/json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Trailer")
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %q", r.Header.Get("X-Asked-By"), r.Method, body)
		w.Header().Set("X-Trailer", "and a trailer")
	})
	mux.HandleFunc("/v1.43/containers/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/secret", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/v1.43/containers/attach", func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		fmt.Fprintf(rw, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		fmt.Fprint(rw, "early ")
		_ = rw.Flush()
		_, _ = io.Copy(conn, rw)
	})
	mux.HandleFunc("/secret", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "secret") })
	return mux
}

// echoServer sends back what comes, on a port of 127.0.0.1.
func echoServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().String()
}

// did is what the guest in Go answers for a task.
func did(ctx context.Context, t *testing.T, p *host.Plugin, config map[string]any) (string, error) {
	t.Helper()
	answer, err := start(ctx, p, taskScope(t), config)
	return string(answer.GetHandle().GetDriverState()), err
}

func TestAGuestInGoTalksToAServerOnASocket(t *testing.T) {
	socket := serveOn(t, engine())
	p := newWorld(t, host.Limits{}).ready(t, guestbuild.Plugin(t, "host/testdata/streams"), host.Grants{
		Net:  host.NetGrant{Addresses: []string{"127.0.0.1:*"}, Sockets: []string{socket}},
		HTTP: host.HTTPGrant{Endpoints: []host.HTTPEndpoint{{Endpoint: "unix:" + socket, Methods: []string{"GET", "POST"}, Paths: []string{"/v*/containers/"}}}},
	})
	require.Contains(t, p.Granted(), fmt.Sprintf("wasmnode:http/v1(GET,POST:unix:%s/v*/containers/)", socket))
	ask := func(config map[string]any) string {
		t.Helper()
		answer, err := did(t.Context(), t, p, config)
		require.NoError(t, err)
		return answer
	}
	const containers = "http://docker/v1.43/containers/"
	big := strings.Repeat("0123456789abcdef", 20<<10)
	require.Equal(t, `200 a guest GET ""and a trailer`, ask(map[string]any{"do": "http", "socket": socket, "url": containers + "json"}))
	require.Equal(t, fmt.Sprintf("200 a guest POST %qand a trailer", big), ask(map[string]any{"do": "http", "socket": socket, "method": "POST", "body": big, "url": containers + "json"}))
	require.Contains(t, ask(map[string]any{"do": "http", "socket": socket, "url": containers + "redirect"}), "307 ", "the guest sees a redirect")
	require.Equal(t, "early "+big, ask(map[string]any{"do": "upgrade", "socket": socket, "body": big, "url": containers + "attach"}))
	require.Equal(t, "200 a guest POST \"x\"and a trailer", ask(map[string]any{"do": "transport", "network": "unix", "address": socket, "method": "POST", "body": "x", "url": containers + "json"}))
	echo := echoServer(t)
	require.Equal(t, "1048576 from "+echo, ask(map[string]any{"do": "echo", "network": "tcp", "address": echo, "body": "0123456789abcdef"}))
	require.Equal(t, "3 ticks, true", ask(map[string]any{"do": "deadline", "network": "tcp", "address": echo}))

	stats := p.Stats()
	require.Equal(t, map[string]uint64{abi.ModuleHTTP: 4, abi.ModuleNet: 3}, stats.Opened)
	require.Zero(t, stats.Streams, "they end with their calls")
	require.Greater(t, stats.StreamRead, uint64(1<<20))
	require.Greater(t, stats.StreamWritten, uint64(1<<20))

	_, err := did(t.Context(), t, p, map[string]any{"do": "http", "socket": socket, "url": "http://docker/secret"})
	require.EqualError(t, err, fmt.Sprintf("GET unix:%s/secret is not granted: add "+
		`plugin "streams" { grant { http { endpoint "unix:%s" { paths = ["/secret"] } } } }`, socket, socket))
	require.Equal(t, abi.PermissionDenied, abi.CodeOf(err))
	_, err = did(t.Context(), t, p, map[string]any{"do": "echo", "network": "tcp", "address": "10.0.0.1:80", "body": "x"})
	require.EqualError(t, err, `connecting to 10.0.0.1:80 is not granted: add plugin "streams" { grant { net { addresses = ["10.0.0.1:80"] } } }`)
	require.EqualValues(t, 2, p.Stats().Denied)
}

func TestStreamsEndWithTheirCall(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	got := make(chan string, 4)
	go func() {
		for range 4 {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				text, _ := io.ReadAll(conn)
				got <- string(text)
			}()
		}
	}()
	p := newWorld(t, host.Limits{}).ready(t, guestbuild.Plugin(t, "host/testdata/streams"), host.Grants{
		Net:  host.NetGrant{Addresses: []string{l.Addr().String()}},
		HTTP: host.HTTPGrant{Endpoints: []host.HTTPEndpoint{{Endpoint: "http://unused", Paths: []string{"/"}}}},
	})
	text := strings.Repeat("x", 100<<10)
	_, err = did(t.Context(), t, p, map[string]any{"do": "leave", "network": "tcp", "address": l.Addr().String(), "body": text})
	require.NoError(t, err)
	require.Zero(t, p.Stats().Streams)
	var all []string
	for range 4 {
		all = append(all, <-got)
	}
	require.ElementsMatch(t, []string{text, "", "", ""}, all, "what was written before the close arrives")
}

// BenchmarkRequest compares a request for 1 KiB over a socket, by a guest in Go with its own
// http.Client, with the same by Go's client directly. A guest's includes its call.
func BenchmarkRequest(b *testing.B) {
	socket := serveOn(b, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<10)) }))
	b.Run("guest", func(b *testing.B) {
		p := newWorld(b, host.Limits{CPUPerMinute: time.Hour}).ready(b, guestbuild.Plugin(b, "host/testdata/streams"), host.Grants{
			Net: host.NetGrant{Sockets: []string{socket}}, HTTP: requestsTo("unix:" + socket),
		})
		scope := taskScope(b)
		defer reportPerRequest(b, processorTime(b))
		for b.Loop() {
			_, err := start(b.Context(), p, scope, map[string]any{"do": "http", "socket": socket, "url": "http://engine/"})
			require.NoError(b, err)
		}
	})
	b.Run("direct", func(b *testing.B) {
		c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}}
		defer c.CloseIdleConnections()
		defer reportPerRequest(b, processorTime(b))
		for b.Loop() {
			r, err := c.Get("http://engine/")
			require.NoError(b, err)
			_, err = io.Copy(io.Discard, r.Body)
			require.NoError(b, err)
			require.NoError(b, r.Body.Close())
		}
	})
}

// reportPerRequest reports the processor time since the benchmark began, of the server, too.
func reportPerRequest(b *testing.B, began time.Duration) {
	b.Helper()
	b.ReportMetric(float64((processorTime(b)-began).Microseconds())/float64(b.N), "cpu-us/request")
}
