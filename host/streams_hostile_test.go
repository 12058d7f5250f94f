package host_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/host/stream"
	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// The functions that guests of these tests import beside those of all.
const (
	fnDial = fnCount + iota
	fnRequest
	fnResponse
	fnStreamRead
	fnStreamWrite
	fnStreamPoll
	fnStreamClose
)

// pollForEver is a request at pollAt to poll the first stream of a plugin for bytes to read.
const pollAt = 24 << 10

var pollForEver = mustMarshal(&wasmnodev1.StreamPollRequest{TimeoutMs: -1, Entries: []*wasmnodev1.StreamPollEntry{{Stream: 1, Events: 1}}})

// streamGuest is a guest with functions for streams.
func streamGuest(message []byte, ops map[string][]byte) []byte {
	i32, i64 := modtest.I32, modtest.I64
	one, two, three := modtest.Type{Params: []byte{i32}, Results: []byte{i64}},
		modtest.Type{Params: []byte{i32, i32}, Results: []byte{i64}},
		modtest.Type{Params: []byte{i32, i32, i32}, Results: []byte{i64}}
	m := guest(message, ops)
	m.Imports = append(m.Imports,
		modtest.Import{Module: abi.ModuleNet, Name: abi.FuncNetDial, Type: two},
		modtest.Import{Module: abi.ModuleHTTP, Name: abi.FuncHTTPRequest, Type: two},
		modtest.Import{Module: abi.ModuleHTTP, Name: abi.FuncHTTPResponse, Type: one},
		modtest.Import{Module: abi.ModuleStream, Name: abi.FuncStreamRead, Type: three},
		modtest.Import{Module: abi.ModuleStream, Name: abi.FuncStreamWrite, Type: three},
		modtest.Import{Module: abi.ModuleStream, Name: abi.FuncStreamPoll, Type: two},
		modtest.Import{Module: abi.ModuleStream, Name: abi.FuncStreamClose, Type: one},
	)
	m.Data = append(m.Data, modtest.Data{Offset: pollAt, Bytes: pollForEver})
	m.Pages = 4
	return m.Bytes()
}

// requestsTo permits all requests to some endpoints.
func requestsTo(endpoints ...string) (g host.HTTPGrant) {
	for _, e := range endpoints {
		g.Endpoints = append(g.Endpoints, host.HTTPEndpoint{Endpoint: e, Methods: []string{"*"}, Paths: []string{"/"}})
	}
	return g
}

// listenSilently returns the address of a server that accepts and says nothing, nor reads.
func listenSilently(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	accepted := make(chan struct{})
	var conns []net.Conn
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-accepted
		for _, c := range conns {
			_ = c.Close()
		}
	})
	return l.Addr().String()
}

// Whatever a guest waits for, its call ends at its deadline, and its streams with it.
func TestAGuestThatWaitsForAStreamEndsAtItsDeadline(t *testing.T) {
	silent := listenSilently(t)
	endless := serveOn(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}))
	dial := &wasmnodev1.NetDialRequest{Address: silent}
	get := &wasmnodev1.HttpRequest{Method: "GET", Url: "http://" + silent}
	call := func(fn uint32, args ...int32) (code []byte) {
		for _, a := range args {
			code = append(code, modtest.I32Const(a)...)
		}
		return modtest.Code(code, modtest.Call(fn), modtest.Drop)
	}
	const buffer = 64 << 10
	for name, c := range map[string]struct {
		open    uint32
		request host.Message
		then    []byte
	}{
		"reading":                 {fnDial, dial, modtest.Loop(call(fnStreamRead, 1, buffer, 100))},
		"writing":                 {fnDial, dial, modtest.Loop(call(fnStreamWrite, 1, buffer, 100_000))},
		"polling for ever":        {fnDial, dial, modtest.Loop(call(fnStreamPoll, pollAt, int32(len(pollForEver))))},
		"a response":              {fnRequest, get, call(fnResponse, 1)},
		"an endless body":         {fnRequest, &wasmnodev1.HttpRequest{Method: "GET", Url: "http://x/", Socket: endless}, modtest.Loop(call(fnStreamRead, 1, buffer, 100_000))},
		"an endless body, unread": {fnRequest, &wasmnodev1.HttpRequest{Method: "GET", Url: "http://x/", Socket: endless}, modtest.Loop(sleepLong())},
		"a body that is written":  {fnRequest, &wasmnodev1.HttpRequest{Method: "PUT", Url: "http://" + silent, Streamed: true, ContentLength: -1}, modtest.Loop(call(fnStreamWrite, 1, buffer, 100_000))},
		"a name's address":        {fnDial, &wasmnodev1.NetDialRequest{Address: "slow.internal:80", TimeoutMs: 1 << 40}, nil},
		"a handshake":             {fnDial, &wasmnodev1.NetDialRequest{Address: silent, Tls: &wasmnodev1.TlsOptions{}, TimeoutMs: 1 << 40}, nil},
		"opening and closing":     {fnDial, dial, modtest.Loop(call(fnStreamClose, 1), call(fnDial, messageAt, int32(len(mustMarshal(dial)))))},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, host.Limits{})
			w.lookup = func(ctx context.Context, _ string) ([]netip.Addr, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			message := mustMarshal(c.request)
			m := streamGuest(message, map[string][]byte{abi.OpDriverFingerprint: modtest.Code(
				call(c.open, messageAt, int32(len(message))),
				c.then, modtest.I32Const(0))})
			p := w.ready(t, m, host.Grants{
				Net:  host.NetGrant{Addresses: []string{silent, "slow.internal:80"}},
				HTTP: requestsTo("http://"+silent, "unix:"+endless),
			})
			err := outOfTime(t, p, 100*time.Millisecond)
			var fault *host.FaultError
			require.ErrorAs(t, err, &fault)
			require.Equal(t, host.FaultTimeout, fault.Kind, "%v", err)
			require.Zero(t, p.Stats().Streams)
		})
	}
}

// answered is what a guest of these tests is answered that asks for something once.
func answered(t *testing.T, p *host.Plugin) error {
	t.Helper()
	return answeredAbout(t, p, nil)
}

// answeredAbout is answered in a call about a task.
func answeredAbout(t *testing.T, p *host.Plugin, scope *host.TaskScope) error {
	t.Helper()
	out, err := p.Call(t.Context(), abi.OpDriverStartTask, nil, scope)
	require.NoError(t, err)
	if code, _ := decodeAnswer(t, out); code == 0 {
		return nil
	}
	return answeredError(t, out)
}

// asking is a guest that asks for one thing.
func asking(fn uint32, request host.Message) []byte {
	message := mustMarshal(request)
	return streamGuest(message, map[string][]byte{abi.OpDriverStartTask: ask(fn, len(message))})
}

func TestWhatWasNotGrantedIsNotConnectedTo(t *testing.T) {
	server := listenSilently(t)
	_, port, err := net.SplitHostPort(server)
	require.NoError(t, err)
	socket := serveOn(t, engine())
	link := filepath.Join(shortDir(t), "link.sock")
	require.NoError(t, os.Symlink(socket, link))
	directory := filepath.Join(shortDir(t), "d")
	require.NoError(t, os.Symlink(filepath.Dir(socket), directory))
	name, other := "db.internal:"+port, host.NetGrant{Addresses: []string{"other:1"}}
	net1 := func(format string, args ...any) string {
		return `plugin "test" { grant { net { ` + fmt.Sprintf(format, args...) + ` } } }`
	}
	http1 := func(endpoint, path string) string {
		return fmt.Sprintf(`plugin "test" { grant { http { endpoint %q { paths = [%q] } } } }`, endpoint, path)
	}
	for title, c := range map[string]struct {
		grant host.Grants
		fn    uint32
		ask   host.Message
		code  abi.Code // 0: it is done
		says  string
	}{
		"an address":        {host.Grants{Net: host.NetGrant{Addresses: []string{server}}}, fnDial, &wasmnodev1.NetDialRequest{Address: server}, 0, ""},
		"any port":          {host.Grants{Net: host.NetGrant{Addresses: []string{"127.0.0.1:*"}}}, fnDial, &wasmnodev1.NetDialRequest{Address: server}, 0, ""},
		"another address":   {host.Grants{Net: other}, fnDial, &wasmnodev1.NetDialRequest{Address: server}, abi.PermissionDenied, net1(`addresses = [%q]`, server)},
		"a pattern":         {host.Grants{Net: other}, fnDial, &wasmnodev1.NetDialRequest{Socket: "/run/*"}, abi.InvalidArgument, "has to be an absolute path"},
		"not an address":    {host.Grants{Net: other}, fnDial, &wasmnodev1.NetDialRequest{Address: "a b:1"}, abi.InvalidArgument, "is not HOST:PORT"},
		"neither":           {host.Grants{Net: other}, fnDial, &wasmnodev1.NetDialRequest{}, abi.InvalidArgument, "either an address or a socket"},
		"the node's own":    {host.Grants{Net: host.NetGrant{Addresses: []string{name}}}, fnDial, &wasmnodev1.NetDialRequest{Address: name}, abi.PermissionDenied, net1(`addresses = [%q]`, server)},
		"the node's, both":  {host.Grants{Net: host.NetGrant{Addresses: []string{name, server}}}, fnDial, &wasmnodev1.NetDialRequest{Address: "DB.internal:" + port}, 0, ""},
		"a socket":          {host.Grants{Net: host.NetGrant{Sockets: []string{socket}}}, fnDial, &wasmnodev1.NetDialRequest{Socket: socket}, 0, ""},
		"another socket":    {host.Grants{Net: host.NetGrant{Sockets: []string{"/run/x"}}}, fnDial, &wasmnodev1.NetDialRequest{Socket: socket}, abi.PermissionDenied, net1(`sockets = [%q]`, socket)},
		"a link":            {host.Grants{Net: host.NetGrant{Sockets: []string{link}}}, fnDial, &wasmnodev1.NetDialRequest{Socket: link}, abi.PermissionDenied, "links are not followed: use, and grant, " + socket},
		"through a link":    {host.Grants{Net: host.NetGrant{Sockets: []string{directory + "/*"}}}, fnDial, &wasmnodev1.NetDialRequest{Socket: directory + "/s.sock"}, abi.PermissionDenied, "grant, " + socket},
		"no socket":         {host.Grants{Net: host.NetGrant{Sockets: []string{"/etc/passwd"}}}, fnDial, &wasmnodev1.NetDialRequest{Socket: "/etc/passwd"}, abi.FailedPrecondition, "is not a socket"},
		"requests only":     {host.Grants{Net: other}, fnRequest, &wasmnodev1.HttpRequest{Method: "GET", Url: "http://" + server}, abi.PermissionDenied, http1("http://"+server, "/")},
		"a request":         {host.Grants{Net: other, HTTP: requestsTo("unix:" + socket)}, fnRequest, &wasmnodev1.HttpRequest{Method: "GET", Url: "http://x/secret", Socket: socket}, 0, ""},
		"another path":      {host.Grants{HTTP: host.HTTPGrant{Endpoints: []host.HTTPEndpoint{{Endpoint: "unix:" + socket, Paths: []string{"/v*/"}}}}}, fnRequest, &wasmnodev1.HttpRequest{Method: "GET", Url: "http://x/secret", Socket: socket}, abi.PermissionDenied, http1("unix:"+socket, "/secret")},
		"another method":    {host.Grants{HTTP: host.HTTPGrant{Endpoints: []host.HTTPEndpoint{{Endpoint: "unix:" + socket, Paths: []string{"/"}}}}}, fnRequest, &wasmnodev1.HttpRequest{Method: "POST", Url: "http://x/secret", Socket: socket}, abi.PermissionDenied, `{ methods = ["POST"] paths = ["/secret"] }`},
		"another server":    {host.Grants{HTTP: requestsTo("https://a")}, fnRequest, &wasmnodev1.HttpRequest{Method: "GET", Url: "https://b"}, abi.PermissionDenied, http1("https://b:443", "/")},
		"not by the scheme": {host.Grants{HTTP: requestsTo("https://a:80")}, fnRequest, &wasmnodev1.HttpRequest{Method: "GET", Url: "http://a"}, abi.PermissionDenied, http1("http://a:80", "/")},
		"a path's pattern":  {host.Grants{HTTP: requestsTo("https://a")}, fnRequest, &wasmnodev1.HttpRequest{Method: "GET", Url: "http://b/*/x"}, abi.PermissionDenied, http1("http://b:80", "/…")},
	} {
		t.Run(title, func(t *testing.T) {
			w := newWorld(t, host.Limits{})
			looked := 0
			w.lookup = func(context.Context, string) ([]netip.Addr, error) { // the next time it says otherwise
				looked++
				return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, byte(looked)})}, nil
			}
			if c.grant.Net.Addresses == nil && c.grant.Net.Sockets == nil {
				c.grant.Net = other
			}
			if c.grant.HTTP.Endpoints == nil {
				c.grant.HTTP = requestsTo("http://other")
			}
			p := w.ready(t, asking(c.fn, c.ask), c.grant)
			err := answered(t, p)
			require.LessOrEqual(t, looked, 1, "a name is looked up once")
			require.Zero(t, p.Stats().Streams)
			if c.code == 0 {
				require.NoError(t, err)
				return
			}
			require.Equal(t, c.code, abi.CodeOf(err), "%v", err)
			require.ErrorContains(t, err, c.says)
			if strings.Contains(err.Error(), "is not granted") {
				require.Equal(t, []string{err.Error()}, p.Stats().NotGranted)
				p.Grant(t.Context(), c.grant)
				require.Empty(t, p.Stats().NotGranted, "under other grants")
			}
		})
	}
}

func TestAPluginWithoutTheGrantForItsImportsIsNotUsed(t *testing.T) {
	p := newWorld(t, host.Limits{}).load(t, asking(fnDial, &wasmnodev1.NetDialRequest{Address: "a:1"}))
	err := p.Configure(t.Context(), host.Grants{}, nil)
	require.EqualError(t, err, `needs grant wasmnode:http/v1: add plugin "test" { grant { http { endpoint "http://HOST:PORT" { paths = ["/PATH"] } } } }, `+
		`naming the requests that it sends; a unix socket is "unix:/PATH"`)
	var missing *host.MissingGrantError
	require.ErrorAs(t, err, &missing)
	require.NoError(t, p.Configure(t.Context(), host.Grants{HTTP: requestsTo("http://a")}, nil), "a driver may have sockets of its tasks alone")
	require.Contains(t, p.Granted(), "wasmnode:net/v1(sockets-of-tasks)")
}

// What a task has in its directory its driver may talk to: of that task, in calls about it.
func TestADriverConnectsToItsTasksOwnSocketsWithoutAGrant(t *testing.T) {
	scope, root := taskScope(t), shortDir(t)
	dir := filepath.Join(root, "task")
	scope.Config.Directories.Task = dir
	for _, d := range []string{dir, filepath.Join(dir, "local"), dir + "-2"} {
		require.NoError(t, os.Mkdir(d, 0o700))
	}
	listen := func(path string) string {
		l, err := net.Listen("unix", path)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return path
	}
	own, below, other := listen(filepath.Join(dir, "s")), listen(filepath.Join(dir, "local/s")), listen(dir+"-2/s")
	twice := listen(filepath.Join(root, "twice"))
	require.NoError(t, os.Link(twice, filepath.Join(dir, "twice")))
	require.NoError(t, os.Symlink(other, filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("s", filepath.Join(dir, "inside")))
	require.NoError(t, os.Symlink(dir+"-2", filepath.Join(dir, "out")))
	for path, c := range map[string]struct {
		scope *host.TaskScope
		code  abi.Code // 0: it is done
		says  string
	}{
		own:                          {scope, 0, ""},
		below:                        {scope, 0, ""},
		other:                        {scope, abi.PermissionDenied, fmt.Sprintf(`add plugin "test" { grant { net { sockets = [%q] } } }`, other)},
		dir:                          {scope, abi.PermissionDenied, "is not granted"},
		filepath.Join(dir, "link"):   {scope, abi.PermissionDenied, "links are not followed"},
		filepath.Join(dir, "inside"): {scope, abi.PermissionDenied, "links are not followed"},
		filepath.Join(dir, "out/s"):  {scope, abi.PermissionDenied, "links are not followed"},
		filepath.Join(dir, "twice"):  {scope, abi.PermissionDenied, "has another name"},
		filepath.Join(dir, "none"):   {scope, abi.NotFound, "there is no socket"},
		filepath.Join(dir, "local"):  {scope, abi.FailedPrecondition, "is not a socket"},
		dir + "/../task-2/s":         {scope, abi.InvalidArgument, "has to be an absolute path"},
		"/proc/self/root" + own:      {scope, abi.PermissionDenied, "is not granted"},
		own + "2":                    {&host.TaskScope{Config: &wasmnodev1.TaskConfig{Id: "of no directory"}}, abi.PermissionDenied, "is not granted"},
	} {
		t.Run(path, func(t *testing.T) {
			p := newWorld(t, host.Limits{}).ready(t, asking(fnDial, &wasmnodev1.NetDialRequest{Socket: path}), host.Grants{HTTP: requestsTo("http://other")})
			err := answeredAbout(t, p, c.scope)
			if c.code == 0 {
				require.NoError(t, err)
				require.ErrorContains(t, answered(t, p), "is not granted", "in a call about no task")
				return
			}
			require.Equal(t, c.code, abi.CodeOf(err), "%v", err)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestACallHasABoundedNumberOfStreams(t *testing.T) {
	server := listenSilently(t)
	request := mustMarshal(&wasmnodev1.NetDialRequest{Address: server})
	dial := modtest.Code(modtest.I32Const(messageAt), modtest.I32Const(int32(len(request))), modtest.Call(fnDial), modtest.Drop)
	p := newWorld(t, host.Limits{}).ready(t, streamGuest(request, map[string][]byte{
		abi.OpDriverStartTask: modtest.Code(modtest.Times(stream.PerCall, 1, dial), ask(fnDial, len(request))),
	}), host.Grants{Net: host.NetGrant{Addresses: []string{server}}, HTTP: requestsTo("http://a")})
	err := answered(t, p)
	require.ErrorContains(t, err, "the call has 256 streams open, which is the limit: close one")
	require.Equal(t, abi.ResourceExhausted, abi.CodeOf(err))
	require.EqualValues(t, stream.PerCall, p.Stats().Opened[abi.ModuleNet])
	require.Zero(t, p.Stats().Streams)
}

// A redirect is an answer like any other: where it leads to is asked for, and has to be granted, by itself.
func TestARedirectToWhatIsNotGrantedIsNotFollowed(t *testing.T) {
	var reached atomic.Int32
	inner := serveOn(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(other.Close)
	for title, to := range map[string]string{"another path": "/secret", "another server": other.URL, "a socket": "unix://" + inner} {
		t.Run(title, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/secret" {
					reached.Add(1)
				}
				http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			}))
			t.Cleanup(server.Close)
			p := newWorld(t, host.Limits{}).ready(t, guestbuild.Plugin(t, "host/testdata/streams"), host.Grants{
				Net:  host.NetGrant{Addresses: []string{"other:1"}},
				HTTP: host.HTTPGrant{Endpoints: []host.HTTPEndpoint{{Endpoint: server.URL, Methods: []string{"GET"}, Paths: []string{"/public"}}}},
			})
			answer, err := did(t.Context(), t, p, map[string]any{"do": "http", "url": server.URL + "/public"})
			require.NoError(t, err)
			require.Contains(t, answer, "307 ", "the redirect is the answer")
			require.Zero(t, reached.Load(), "nobody has gone there")
		})
	}
}

// A name is looked up once: the address that was checked is the one that is dialled, whatever the name's
// server says the next time.
func TestANameWhoseAddressChangesIsDialledAsItWasChecked(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.2:0")
	require.NoError(t, err)
	var reached atomic.Int32
	checked := &http.Server{ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			reached.Add(1)
		}
	}}
	checked.SetKeepAlivesEnabled(false) // each request has a connection of its own
	go func() { _ = checked.Serve(l) }()
	t.Cleanup(func() { _ = checked.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	name := "changes.example:" + port
	for title, config := range map[string]map[string]any{
		"a connection": {"do": "echo", "network": "tcp", "address": name, "body": "GET / HTTP/1.0\r\n\r\n"},
		"a request":    {"do": "http", "url": "http://" + name},
	} {
		t.Run(title, func(t *testing.T) {
			before, looked := reached.Load(), 0
			w := newWorld(t, host.Limits{})
			w.lookup = func(context.Context, string) ([]netip.Addr, error) {
				if looked++; looked == 1 {
					return []netip.Addr{netip.MustParseAddr("127.0.0.2")}, nil
				}
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			}
			p := w.ready(t, guestbuild.Plugin(t, "host/testdata/streams"), host.Grants{
				Net: host.NetGrant{Addresses: []string{name, l.Addr().String()}}, HTTP: requestsTo("http://" + name),
			})
			_, _ = did(t.Context(), t, p, config) // what is there does not echo
			require.Equal(t, 1, looked)
			require.Equal(t, before+1, reached.Load(), "what was checked is dialled")

			_, err := did(t.Context(), t, p, config)
			require.Equal(t, abi.PermissionDenied, abi.CodeOf(err), "what it is the next time is checked again: %v", err)
			require.Equal(t, before+1, reached.Load())
		})
	}
}
