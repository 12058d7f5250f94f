// Command streams is a driver that connects where its tasks say, as clients in Go do.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/httpclient"
	"github.com/wasmnode/wasmnode/sdk/go/network"
)

func init() { driver.Serve(streams{}) }

func main() {}

type streams struct{}

func (streams) Describe() *driver.Description {
	return &driver.Description{Name: "streams", Version: "1.0.0"}
}

func (streams) Configure(context.Context, []byte) error { return nil }

func (streams) Fingerprint(context.Context) (*driver.Fingerprint, error) {
	return &driver.Fingerprint{Health: driver.Healthy}, nil
}

// request is what a task asks for.
type request struct{ do, network, address, socket, url, method, body string }

// StartTask does what the task says and answers with what came of it as its state.
func (streams) StartTask(ctx context.Context, t *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	c, err := config.Parse(t.DriverConfig)
	if err != nil {
		return nil, nil, err
	}
	text := func(key string) string { return c.Get(key).Text() }
	r := request{text("do"), text("network"), text("address"), text("socket"), text("url"), text("method"), text("body")}
	do := map[string]func(context.Context, request) (string, error){
		"http": byHTTP, "upgrade": byUpgrade, "echo": byEcho, "deadline": byDeadline, "transport": byTransport, "leave": byLeaving,
	}[r.do]
	if do == nil {
		return nil, nil, abi.NewError(abi.InvalidArgument, "do "+r.do)
	}
	answer, err := do(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	return &driver.TaskHandle{Version: 1, DriverState: []byte(answer)}, nil, nil
}

// client does not follow redirects, so that the test sees them.
func client(rt http.RoundTripper) *http.Client {
	return &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// byHTTP sends a request, whose body is streamed.
func byHTTP(ctx context.Context, r request) (string, error) {
	return send(ctx, client(&httpclient.Transport{Socket: r.socket}), r)
}

func send(ctx context.Context, c *http.Client, r request) (string, error) {
	var body io.Reader
	if r.body != "" {
		body = io.MultiReader(strings.NewReader(r.body)) // of a length that net/http does not know
	}
	request, err := http.NewRequestWithContext(ctx, r.method, r.url, body)
	if err != nil {
		return "", err
	}
	request.Header.Set("X-Asked-By", "a guest")
	response, err := c.Do(request)
	if err != nil {
		return "", plain(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return fmt.Sprintf("%d %s%s", response.StatusCode, answer, response.Trailer.Get("X-Trailer")), err
}

// plain is the host's error in one of net/http's, so that the node gets its code.
func plain(err error) error {
	var known *abi.Error
	if errors.As(err, &known) {
		return known
	}
	return err
}

// byTransport sends a request by net/http's own transport, over a connection: its goroutines
// read and write at once.
func byTransport(ctx context.Context, r request) (string, error) {
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return network.Dial(ctx, r.network, r.address)
	}}
	defer t.CloseIdleConnections()
	return send(ctx, client(t), r)
}

// byUpgrade has a connection upgraded, sends the body while it reads, and returns what came.
func byUpgrade(ctx context.Context, r request) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "tcp")
	response, err := (&httpclient.Transport{Socket: r.socket}).RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	raw, ok := response.Body.(interface {
		io.ReadWriteCloser
		CloseWrite() error
	})
	if response.StatusCode != http.StatusSwitchingProtocols || !ok {
		return "", fmt.Errorf("status %d, body %T", response.StatusCode, response.Body)
	}
	return bothWays(raw, r.body)
}

// bothWays writes in one goroutine and reads in another, as clients do.
func bothWays(raw interface {
	io.ReadWriter
	CloseWrite() error
}, text string) (string, error) {
	failed := make(chan error, 1)
	go func() {
		_, err := io.Copy(raw, strings.NewReader(text))
		failed <- errors.Join(err, raw.CloseWrite())
	}()
	answer, err := io.ReadAll(raw)
	return string(answer), errors.Join(err, <-failed)
}

// byEcho sends a mebibyte of the body and expects it back.
func byEcho(ctx context.Context, r request) (string, error) {
	conn, err := network.Dial(ctx, r.network, r.address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	text := strings.Repeat(r.body, 1<<20/len(r.body))
	answer, err := bothWays(conn.(interface {
		net.Conn
		CloseWrite() error
	}), text)
	if err == nil && answer != text {
		err = fmt.Errorf("%d bytes came back, not the %d that were sent", len(answer), len(text))
	}
	return fmt.Sprint(len(answer), " from ", conn.RemoteAddr()), err
}

// byDeadline reads where nothing comes, with a deadline; other goroutines run meanwhile.
func byDeadline(ctx context.Context, r request) (string, error) {
	conn, err := network.Dial(ctx, r.network, r.address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	ticks := make(chan int)
	go func() {
		for i := range 3 {
			time.Sleep(10 * time.Millisecond)
			ticks <- i
		}
		close(ticks)
	}()
	if err := conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		return "", err
	}
	read := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		read <- err
	}()
	n := 0
	for range ticks {
		n++
	}
	err = <-read
	return fmt.Sprint(n, " ticks, ", errors.Is(err, os.ErrDeadlineExceeded)), nil
}

// byLeaving writes, and leaves without closing what it has opened, but for one.
func byLeaving(ctx context.Context, r request) (string, error) {
	for range 3 {
		if _, err := network.Dial(ctx, r.network, r.address); err != nil {
			return "", err
		}
	}
	conn, err := network.Dial(ctx, r.network, r.address)
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(conn, bytes.NewReader([]byte(r.body))); err != nil {
		return "", err
	}
	return "", conn.Close()
}
