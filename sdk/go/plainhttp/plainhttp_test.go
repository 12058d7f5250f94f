package plainhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/internal/expect"
	"github.com/wasmnode/wasmnode/sdk/go/plainhttp"
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

const socket = "/run/engine.sock"

// run has a driver do something on a node where handler answers at a socket.
func run(t *testing.T, handler http.HandlerFunc, do probe) {
	t.Helper()
	node := drivertest.New(t, func() driver.Driver { return do })
	l := node.Listen(socket)
	go func() { _ = http.Serve(l, handler) }()
	_, _, err := node.StartTask(node.Task(`{}`))
	expect.NoError(t, err)
}

func TestARequestIsAnswered(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	run(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-A", r.Header.Get("X-A"))
		w.WriteHeader(http.StatusTeapot)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL, body, long)
	}, func(ctx context.Context) error {
		r, err := plainhttp.Do(ctx, &plainhttp.Request{
			Method: "POST", URL: "http://engine/x?y=z", Socket: socket, Header: []*plainhttp.Header{{Name: "X-A", Value: "1"}}, Body: []byte("body"),
		})
		if err != nil {
			return err
		}
		expect.Equal(t, r.Status, http.StatusTeapot)
		expect.Equal(t, r.Get("x-a"), "1")
		text, err := io.ReadAll(r)
		expect.NoError(t, err)
		expect.Equal(t, string(text), "POST /x?y=z body "+long)
		_, err = r.Write([]byte("x"))
		expect.True(t, err != nil && r.CloseWrite() != nil)
		return r.Close()
	})
}

// A server that refuses need not read what it refuses.
func TestABodyIsStreamedUntilTheServerTakesNoMore(t *testing.T) {
	const size = 8 << 20
	for _, status := range []int{http.StatusOK, http.StatusBadRequest} {
		run(t, func(w http.ResponseWriter, r *http.Request) {
			read := int64(0)
			if status == http.StatusOK {
				read, _ = io.Copy(io.Discard, r.Body)
			}
			w.WriteHeader(status)
			fmt.Fprint(w, read)
		}, func(ctx context.Context) error {
			r, err := plainhttp.Do(ctx, &plainhttp.Request{
				Method: "POST", URL: "http://engine/", Socket: socket, Stream: io.LimitReader(endless{}, size),
			})
			if err != nil {
				return err
			}
			expect.Equal(t, r.Status, status)
			text, err := io.ReadAll(r)
			expect.NoError(t, err)
			expect.Equal(t, string(text), map[int]string{http.StatusOK: fmt.Sprint(size), http.StatusBadRequest: "0"}[status])
			return r.Close()
		})
	}
}

// endless is zeros without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A server may answer at once and end its answer late.
func TestATimeoutIsOfTheWholeExchange(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	for _, early := range []bool{false, true} {
		run(t, func(w http.ResponseWriter, _ *http.Request) {
			if early {
				_ = http.NewResponseController(w).Flush()
			}
			<-over
		}, func(ctx context.Context) error {
			r, err := plainhttp.Do(ctx, &plainhttp.Request{Method: "GET", URL: "http://engine/", Socket: socket, Timeout: 50 * time.Millisecond})
			if early {
				expect.NoError(t, err)
				_, err = io.ReadAll(r)
			}
			expect.Equal(t, abi.CodeOf(err), abi.DeadlineExceeded)
			return nil
		})
	}
}

func TestATimeoutIsOfABodyThatIsSentAsWell(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	run(t, func(http.ResponseWriter, *http.Request) { <-over }, func(ctx context.Context) error {
		_, err := plainhttp.Do(ctx, &plainhttp.Request{
			Method: "POST", URL: "http://engine/", Socket: socket, Stream: endless{}, Timeout: 50 * time.Millisecond,
		})
		expect.Equal(t, abi.CodeOf(err), abi.DeadlineExceeded)
		return nil
	})
}

func TestABodyIsAwaited(t *testing.T) {
	goOn := make(chan struct{})
	run(t, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-goOn
		fmt.Fprint(w, "body")
	}, func(ctx context.Context) error {
		r, err := plainhttp.Do(ctx, &plainhttp.Request{Method: "GET", URL: "http://engine/", Socket: socket})
		expect.NoError(t, err)
		for _, longest := range []time.Duration{-1, 0, time.Millisecond} {
			ready, err := r.Await(longest)
			expect.NoError(t, err)
			expect.True(t, !ready)
		}
		close(goOn)
		for _, want := range []string{"body", ""} {
			ready, err := r.Await(time.Hour)
			expect.NoError(t, err)
			expect.True(t, ready)
			text, err := io.ReadAll(r)
			expect.NoError(t, err)
			expect.Equal(t, string(text), want)
		}
		expect.NoError(t, r.Close())
		_, err = r.Await(0)
		expect.Equal(t, abi.CodeOf(err), abi.NotFound)
		return nil
	})
}

func TestAnUpgradeIsARawConnection(t *testing.T) {
	run(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		fmt.Fprint(rw, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(conn, rw)
	}, func(ctx context.Context) error {
		r, err := plainhttp.Do(ctx, &plainhttp.Request{Method: "POST", URL: "http://engine/attach", Socket: socket, Header: []*plainhttp.Header{
			{Name: "Connection", Value: "Upgrade"}, {Name: "Upgrade", Value: "tcp"},
		}})
		if err != nil {
			return err
		}
		_, err = r.Write([]byte("hello"))
		expect.NoError(t, err)
		expect.NoError(t, r.CloseWrite())
		got, err := io.ReadAll(r)
		expect.Equal(t, string(got), "hello")
		return err
	})
}
