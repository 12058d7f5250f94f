package httpclient_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/httpclient"
	"github.com/wasmnode/wasmnode/sdk/go/internal/expect"
)

// probe is a driver whose tasks start by doing something.
type probe func(ctx context.Context) error

func (probe) Describe() *driver.Description {
	return &driver.Description{Name: "probe", Version: "1.0.0"}
}
func (probe) Configure(context.Context, []byte) error { return nil }
func (probe) Fingerprint(context.Context) (*driver.Fingerprint, error) {
	return &driver.Fingerprint{Health: driver.Healthy}, nil
}
func (p probe) StartTask(ctx context.Context, _ *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	return &driver.TaskHandle{Version: 1}, nil, p(ctx)
}

// run has a driver do something on a node where handler answers at a socket.
func run(t *testing.T, handler http.HandlerFunc, do probe) error {
	t.Helper()
	node := drivertest.New(t, func() driver.Driver { return do })
	l := node.Listen("/run/engine.sock")
	go func() { _ = http.Serve(l, handler) }()
	_, _, err := node.StartTask(node.Task(`{}`))
	return err
}

func TestAnHTTPClientSendsAndReceives(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	handler := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-T")
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %d %s", r.Method, r.Host, r.URL, len(body), r.Header.Get("X-A"))
		w.Header().Set("X-T", "end")
	}
	err := run(t, handler, func(ctx context.Context) error {
		c := http.Client{Transport: &httpclient.Transport{Socket: "/run/engine.sock"}}
		for want, body := range map[string]string{"POST engine /x?y=z 1 1": "x", "POST engine /x?y=z 1048576 1": long} {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://engine/x?y=z", strings.NewReader(body))
			expect.NoError(t, err)
			r.Header.Set("X-A", "1")
			response, err := c.Do(r)
			if err != nil {
				return err
			}
			got, err := io.ReadAll(response.Body)
			expect.NoError(t, err)
			expect.Equal(t, string(got), want)
			expect.Equal(t, response.Trailer.Get("X-T"), "end")
			expect.NoError(t, response.Body.Close())
		}
		return nil
	})
	expect.NoError(t, err)
}

func TestARequestEndsWithItsContext(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	err := run(t, func(http.ResponseWriter, *http.Request) { <-over }, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/", nil)
		expect.NoError(t, err)
		_, err = (&httpclient.Transport{Socket: "/run/engine.sock"}).RoundTrip(r) //nolint:bodyclose // there is none
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "deadline exceeded") {
		t.Fatal(err)
	}
}

func TestAnUpgradeIsARawConnection(t *testing.T) {
	handler := func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		fmt.Fprint(rw, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(conn, rw)
	}
	err := run(t, handler, func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://engine/attach", nil)
		expect.NoError(t, err)
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "tcp")
		response, err := (&httpclient.Transport{Socket: "/run/engine.sock"}).RoundTrip(r)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		raw := response.Body.(interface {
			io.ReadWriter
			CloseWrite() error
		})
		_, err = raw.Write([]byte("hello"))
		expect.NoError(t, err)
		expect.NoError(t, raw.CloseWrite())
		got, err := io.ReadAll(raw)
		expect.Equal(t, string(got), "hello")
		return err
	})
	expect.NoError(t, err)
}

func TestNobodyListens(t *testing.T) {
	err := run(t, nil, func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://elsewhere/", nil)
		expect.NoError(t, err)
		_, err = (&httpclient.Transport{}).RoundTrip(r) //nolint:bodyclose // there is none
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "elsewhere:80: nobody listens") {
		t.Fatal(err)
	}
}
