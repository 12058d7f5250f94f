package main

import (
	"context"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/plainhttp"
)

// maxAnswer bounds what is read of an engine's answer; a container's description is a few KB.
const maxAnswer = 4 << 20

// engine speaks the Docker API, without a version in its paths: every engine takes its own.
type engine struct {
	base   string // of URLs
	socket string // empty: the URL's host
}

// newEngine reads an endpoint as Docker writes them.
func newEngine(endpoint string) (engine, error) {
	switch scheme, rest, _ := strings.Cut(endpoint, "://"); scheme {
	case "unix":
		return engine{base: "http://docker", socket: rest}, nil
	case "tcp", "http":
		return engine{base: "http://" + strings.TrimSuffix(rest, "/")}, nil
	case "https":
		return engine{base: "https://" + strings.TrimSuffix(rest, "/")}, nil
	}
	return engine{}, abi.NewError(abi.InvalidArgument, "endpoint: want unix:///PATH, tcp://HOST:PORT or https://HOST:PORT, not "+endpoint)
}

// request is one to the engine.
type request struct {
	method, path string
	query        url.Values
	body         []byte
	stream       io.Reader // a body that is not held whole
	header       []*plainhttp.Header
	timeout      time.Duration // 0: that of the operation
}

// send sends a request. A response that is no success is an error.
func (e engine) send(ctx context.Context, r request) (*plainhttp.Response, error) {
	u := e.base + r.path
	if len(r.query) > 0 {
		u += "?" + r.query.Encode()
	}
	if r.body != nil {
		r.header = append(r.header, &plainhttp.Header{Name: "Content-Type", Value: "application/json"})
	}
	response, err := plainhttp.Do(ctx, &plainhttp.Request{
		Method: r.method, URL: u, Socket: e.socket, Header: r.header, Body: r.body, Stream: r.stream, Timeout: r.timeout,
	})
	if err != nil {
		return nil, err
	}
	if response.Status < 400 {
		return response, nil
	}
	defer func() { _ = response.Close() }()
	text, err := io.ReadAll(io.LimitReader(response, 64<<10))
	if err != nil {
		return nil, err
	}
	return nil, refusal(response.Status, text)
}

// refusal is an engine's answer that is no success.
func refusal(status int, text []byte) *abi.Error {
	message := strings.TrimSpace(string(text))
	if v, err := config.Parse(text); err == nil && v.Get("message").Text() != "" {
		message = strings.TrimSpace(v.Get("message").Text())
	}
	message = "Error response from daemon: " + message // in the words of Docker's client, which Nomad's users know
	switch {
	case status == 400:
		return abi.NewError(abi.InvalidArgument, message)
	case status == 401 || status == 403:
		return abi.NewError(abi.PermissionDenied, message)
	case status == 404:
		return abi.NewError(abi.NotFound, message)
	case status == 409 || strings.Contains(message, "container state improper"): // the latter is Podman's
		return abi.NewError(abi.FailedPrecondition, message)
	}
	return abi.NewRecoverableError(abi.Unavailable, message)
}

// ask sends a request and reads its answer.
func (e engine) ask(ctx context.Context, r request) (config.Value, error) {
	response, err := e.send(ctx, r)
	if err != nil {
		return config.Value{}, err
	}
	defer func() { _ = response.Close() }()
	text, err := io.ReadAll(io.LimitReader(response, maxAnswer))
	if err != nil {
		return config.Value{}, err
	}
	answer, err := config.Parse(text)
	if err != nil && response.Status != 204 {
		return config.Value{}, abi.NewError(abi.Internal, "the engine's answer: "+err.Error())
	}
	return answer, nil
}

func (e engine) get(ctx context.Context, path string, query url.Values) (config.Value, error) {
	return e.ask(ctx, request{method: "GET", path: path, query: query})
}

// post sends a request whose answer does not matter.
func (e engine) post(ctx context.Context, path string, query url.Values) error {
	response, err := e.send(ctx, request{method: "POST", path: path, query: query})
	if err != nil {
		return err
	}
	return response.Close()
}

// absent reports whether an engine says that it has not what it was asked about. Where there is no
// engine, that is not known: the error of a missing socket can be mended.
func absent(err error) bool { return isCode(err, abi.NotFound) && !abi.IsRecoverable(err) }

// isCode reports whether an error is of that code.
func isCode(err error, code abi.Code) bool { return err != nil && abi.CodeOf(err) == code }
