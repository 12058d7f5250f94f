package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"encoding/pem"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host/outbound"
)

// ask sends a request and returns the body of its response.
func ask(t *testing.T, c *outbound.Client, d outbound.Dialer, m *wasmnodev1.HttpRequest) (string, error) {
	t.Helper()
	r, err := outbound.NewRequest(m)
	if err != nil {
		return "", err
	}
	r.Dialer = d
	response, _, err := c.Do(t.Context(), r, nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func client(t *testing.T) *outbound.Client {
	t.Helper()
	c := outbound.NewClient()
	t.Cleanup(c.Close)
	return c
}

// to looks every name up as one address, of which nothing is granted.
func to(ip string) outbound.Dialer {
	return outbound.Dialer{
		Lookup: func(_ context.Context, name string) ([]netip.Addr, error) {
			if name == "nowhere" {
				return nil, &net.DNSError{IsNotFound: true, Name: name}
			}
			return []netip.Addr{netip.MustParseAddr(ip)}, nil
		},
		Permitted: func(a netip.AddrPort) error { return fmt.Errorf("not %s", a) },
	}
}

func TestWhatIsOfOneConnectionIsTheNodes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Write(w) //nolint:errcheck // of a test's answer
		fmt.Fprintf(w, "host %s %s", r.Host, r.URL)
	}))
	defer server.Close()
	c := client(t)
	header := func(lines ...string) (out []*wasmnodev1.HttpHeader) {
		for _, l := range lines {
			name, value, _ := strings.Cut(l, "=")
			out = append(out, &wasmnodev1.HttpHeader{Name: name, Value: value})
		}
		return out
	}
	body, err := ask(t, c, to("10.0.0.1"), &wasmnodev1.HttpRequest{Method: "GET", Url: server.URL + "/x?y=../z", Headers: header(
		"X-A=1", "x-a=2", "Connection=close, X-A", "Keep-Alive=1", "Transfer-Encoding=chunked", "Content-Length=7", "TE=trailers", "Upgrade=tcp", "Proxy-Connection=x", "Trailer=X")})
	require.NoError(t, err)
	require.Equal(t, "X-A: 1\r\nX-A: 2\r\nhost "+strings.TrimPrefix(server.URL, "http://")+" /x?y=../z", body)
	for name, m := range map[string]*wasmnodev1.HttpRequest{
		"host":             {Method: "GET", Headers: header("host=other")},
		"a line in a name": {Method: "GET", Headers: header("X: y\r\nX-B=1")},
		"in a value":       {Method: "GET", Headers: header("X=y\r\nX-B: 1")},
		"no name":          {Method: "GET", Headers: header("=y")},
		"too many":         {Method: "GET", Headers: make([]*wasmnodev1.HttpHeader, outbound.MaxHeaders+1)},
		"too long":         {Method: "GET", Headers: header("X=" + strings.Repeat("x", outbound.MaxHeaderBytes))},
		"method":           {Method: "GET /x HTTP/1.1\r\nX:"},
		"no method":        {},
		"connect":          {Method: "CONNECT"},
		"TLS without":      {Method: "GET", Tls: &wasmnodev1.TlsOptions{}},
		"two bodies":       {Method: "PUT", Streamed: true, Body: []byte("x")},
	} {
		m.Url = server.URL
		for i := range m.Headers {
			if m.Headers[i] == nil {
				m.Headers[i] = &wasmnodev1.HttpHeader{Name: "X"}
			}
		}
		_, err := ask(t, c, to("10.0.0.1"), m)
		require.Equal(t, abi.InvalidArgument, abi.CodeOf(err), "%s: %v", name, err)
	}
	_, err = ask(t, c, to("10.0.0.1"), &wasmnodev1.HttpRequest{Method: "GET", Url: server.URL, Headers: header("X=" + strings.Repeat("x", outbound.MaxHeaderBytes-5))})
	require.NoError(t, err, "at the bound")
}

func TestTLSIsVerifiedByWhatIsAskedFor(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host) }))
	defer server.Close()
	server.Config.ErrorLog = nil
	roots := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c := client(t)
	get := func(o *wasmnodev1.TlsOptions) (string, error) {
		body, err := ask(t, c, to("10.0.0.1"), &wasmnodev1.HttpRequest{Method: "GET", Url: server.URL, Tls: o})
		return body, err
	}
	body, err := get(&wasmnodev1.TlsOptions{RootsPem: roots, ServerName: "example.com"})
	require.NoError(t, err)
	require.Equal(t, strings.TrimPrefix(server.URL, "https://"), body)
	_, err = get(&wasmnodev1.TlsOptions{RootsPem: roots, ServerName: "other"})
	require.ErrorContains(t, err, "not other", "a connection is not shared with who asks for another name")
	_, err = get(nil)
	require.ErrorContains(t, err, "unknown authority", "nor with other roots")
	require.Equal(t, abi.Unavailable, abi.CodeOf(err))
	for _, o := range []*wasmnodev1.TlsOptions{{RootsPem: []byte("x")}, {CertificatePem: roots}, {KeyPem: []byte("x")}} {
		_, err = get(o)
		require.Equal(t, abi.InvalidArgument, abi.CodeOf(err), "%v", err)
	}
}

func TestANameIsNoPermissionForWhatItMeans(t *testing.T) {
	for _, ip := range []string{"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1"} {
		_, err := to(ip).TCP(t.Context(), "name", 80)
		require.ErrorContains(t, err, "not "+netip.AddrPortFrom(netip.MustParseAddr(ip).Unmap(), 80).String())
	}
	_, err := to("").TCP(t.Context(), "nowhere", 80)
	require.EqualError(t, err, "looking up nowhere: there is no such name")
	require.Equal(t, abi.NotFound, abi.CodeOf(err))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	d := to("127.0.0.1")
	d.Permitted = func(a netip.AddrPort) error {
		require.Equal(t, l.Addr().String(), a.String())
		return nil
	}
	conn, err := d.TCP(t.Context(), "name", port)
	require.NoError(t, err)
	_ = conn.Close()
	require.NoError(t, l.Close())
	_, err = d.TCP(t.Context(), "127.0.0.1", port)
	require.EqualError(t, err, "connecting to 127.0.0.1:"+strconv.Itoa(int(port))+": connect: connection refused")
	require.True(t, abi.IsRecoverable(err))
}

func TestASocketIsOpenedWithoutFollowingLinks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	link, through, loop := filepath.Join(dir, "link"), filepath.Join(dir, "d"), filepath.Join(dir, "loop")
	require.NoError(t, errors.Join(os.Symlink("s", link), os.Symlink(dir, through), os.Symlink("loop", loop), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)))
	conn, err := outbound.Socket(t.Context(), path)
	require.NoError(t, err)
	_ = conn.Close()
	for p, want := range map[string]struct {
		code abi.Code
		says string
	}{
		link:                        {abi.PermissionDenied, "use, and grant, " + path},
		filepath.Join(through, "s"): {abi.PermissionDenied, "use, and grant, " + path},
		loop:                        {abi.PermissionDenied, "links are not followed"},
		filepath.Join(dir, "file"):  {abi.FailedPrecondition, "is not a socket"},
		filepath.Join(dir, "none"):  {abi.NotFound, "there is no socket"},
		filepath.Join(path, "x"):    {abi.NotFound, "there is no socket"},
	} {
		_, err := outbound.Socket(t.Context(), p)
		require.Equal(t, want.code, abi.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, want.says)
	}
	require.NoError(t, l.Close())
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	require.NoError(t, err)
	left.SetUnlinkOnClose(false)
	require.NoError(t, left.Close())
	_, err = outbound.Socket(t.Context(), path)
	require.EqualError(t, err, "connecting to "+path+": connect: connection refused")
}

// Whatever somebody who can write to the directory does meanwhile, nothing elsewhere is reached.
func TestASocketBelowADirectoryIsOfThere(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	listen := func(path, says string) {
		l, err := net.Listen("unix", path)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, says)
				_ = conn.Close()
			}
		}()
	}
	own, path := filepath.Join(dir, "own"), filepath.Join(dir, "s")
	listen(own, "inside")
	listen(filepath.Join(outside, "s"), "outside")
	link := filepath.Join(dir, "link")
	reached := map[string]int{}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = os.Symlink(filepath.Join(outside, "s"), link)
				_ = os.Rename(link, path)
				_ = os.Rename(own, path)
				_ = os.Rename(path, own)
			}
		}
	}()
	for reached["inside"] < 20 || reached["links are not followed"] < 20 {
		conn, err := outbound.SocketBelow(t.Context(), dir, path)
		switch {
		case err == nil:
			text, _ := io.ReadAll(conn)
			_ = conn.Close()
			reached[string(text)]++
		case strings.Contains(err.Error(), "links are not followed"):
			reached["links are not followed"]++
		default:
			require.Equal(t, abi.NotFound, abi.CodeOf(err), "%v", err)
		}
	}
	close(stop)
	<-stopped
	require.Zero(t, reached["outside"])

	_, err := outbound.SocketBelow(t.Context(), "/", "/proc/version")
	require.EqualError(t, err, "/proc/version leads out of its directory, or through a mount")
	require.Equal(t, abi.PermissionDenied, abi.CodeOf(err))
	for _, path := range []string{dir, outside + "/s"} {
		_, err := outbound.SocketBelow(t.Context(), dir, path)
		require.ErrorContains(t, err, "is not below")
	}
	through := filepath.Join(outside, "through")
	require.NoError(t, os.Symlink(dir, through))
	conn, err := outbound.SocketBelow(t.Context(), through, through+"/own")
	require.NoError(t, err, "where the directory is, the operator decides")
	_ = conn.Close()
}

func TestAConnectionIsKeptForTheNextRequest(t *testing.T) {
	peers := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peers[r.RemoteAddr] = true
		w.Header().Set("X-Large", strings.Repeat("x", len(r.URL.Query().Get("n"))<<10))
	}))
	defer server.Close()
	c := client(t)
	for range 3 {
		_, err := ask(t, c, to("10.0.0.1"), &wasmnodev1.HttpRequest{Method: "GET", Url: server.URL})
		require.NoError(t, err)
	}
	require.Len(t, peers, 1)
	c.Close()
	_, err := ask(t, c, to("10.0.0.1"), &wasmnodev1.HttpRequest{Method: "GET", Url: server.URL + "?n=" + strings.Repeat("x", outbound.MaxResponseHeaderBytes>>10)})
	require.ErrorContains(t, err, "server response headers exceeded")
}

func TestTheHeadersOfAResponseAreBoundedAtTheirEdge(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	const before, after = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: ", "\r\n\r\n"
	sizes := make(chan int, 1)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1024)) // the request, which is short
			_, _ = io.WriteString(conn, before+strings.Repeat("x", <-sizes-len(before)-len(after))+after+"ok")
			_ = conn.Close()
		}
	})
	defer serving.Wait()
	defer l.Close()
	for size, says := range map[int]string{256 << 10: "", 256<<10 + 1: "server response headers exceeded"} {
		sizes <- size
		body, err := ask(t, client(t), to("127.0.0.1"), &wasmnodev1.HttpRequest{Method: "GET", Url: "http://" + l.Addr().String()})
		if says == "" {
			require.NoError(t, err)
			require.Equal(t, "ok", body)
			continue
		}
		require.ErrorContains(t, err, says)
	}
}

// FuzzRequest: what a guest hands over is a request or is refused.
func FuzzRequest(f *testing.F) {
	for _, m := range []*wasmnodev1.HttpRequest{
		{Method: "GET", Url: "http://a/x"},
		{Method: "POST", Url: "https://a/x", Headers: []*wasmnodev1.HttpHeader{{Name: "X", Value: "y"}}, Tls: &wasmnodev1.TlsOptions{ServerName: "b"}, Streamed: true},
	} {
		b, err := m.MarshalVT()
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &wasmnodev1.HttpRequest{}
		if m.UnmarshalVT(b) != nil {
			return
		}
		r, err := outbound.NewRequest(m)
		if err != nil {
			require.Equal(t, abi.InvalidArgument, abi.CodeOf(err))
			return
		}
		out := &http.Request{Method: r.Method, URL: r.Target.URL, Host: r.Target.URL.Host, Header: r.Header}
		var wire strings.Builder
		require.NoError(t, out.Write(&wire))
		head, _, _ := strings.Cut(wire.String(), "\r\n\r\n")
		require.NotContains(t, strings.ReplaceAll(head, "\r\n", ""), "\n")
	})
}
