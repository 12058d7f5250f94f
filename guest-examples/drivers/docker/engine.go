package main

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strconv"
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
	tls    config.Value
}

// newEngine reads an endpoint as Docker writes them, and the plugin's tls, with which tcp is https.
func newEngine(endpoint string, tls config.Value) (engine, error) {
	if err := checkTLS(endpoint, tls); err != nil {
		return engine{}, err
	}
	switch scheme, rest, _ := strings.Cut(endpoint, "://"); {
	case scheme == "unix":
		return engine{base: "http://docker", socket: rest}, nil
	case scheme == "https", scheme == "tcp" && tls.IsSet():
		return engine{base: "https://" + strings.TrimSuffix(rest, "/"), tls: tls}, nil
	case scheme == "tcp", scheme == "http":
		return engine{base: "http://" + strings.TrimSuffix(rest, "/")}, nil
	}
	return engine{}, abi.NewError(abi.InvalidArgument, "endpoint: want unix:///PATH, tcp://HOST:PORT or https://HOST:PORT, not "+endpoint)
}

// patience is for how long the driver waits for its engine in an operation, and for the answer to one
// request. It is less than the node gives the operation (abi/ABI.md): what that has to cut off is the
// driver's fault, and an engine that hangs is not.
var patience = struct {
	fingerprint, start, stop, signal, stats, remove, recover time.Duration
	request, silence                                         time.Duration
}{
	fingerprint: 8 * time.Second,
	start:       14*time.Minute + 30*time.Second,
	stop:        8 * time.Second, // beyond the time that the task has to end
	signal:      8 * time.Second,
	stats:       4 * time.Second,
	remove:      25 * time.Second,
	recover:     25 * time.Second,
	request:     time.Minute,
	silence:     30 * time.Second, // of a container, before its log is taken for one whose end was missed
}

// request is one to the engine.
type request struct {
	method, path string
	query        url.Values
	body         []byte
	stream       io.Reader // a body that is not held whole
	header       []*plainhttp.Header
	timeout      time.Duration // 0: the driver's patience
	lasting      bool          // the answer takes as long as what it tells of: only the operation's time bounds it
}

// within is for how long a request's answer is waited for, with all of its body; 0: as long as it takes.
func (r request) within(ctx context.Context) time.Duration {
	t := r.timeout
	if t == 0 && !r.lasting {
		t = patience.request
	}
	if end, bounded := ctx.Deadline(); bounded {
		if left := max(time.Until(end), time.Millisecond); t == 0 || left < t {
			t = left
		}
	}
	return t
}

// answer is an engine's answer, which is read as it comes.
type answer struct {
	*plainhttp.Response
	to waiting
}

// Read implements [io.Reader].
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.Response.Read(p)
	return n, a.to.broken(err)
}

// waiting is for the answer to a request.
type waiting struct {
	request string
	begun   time.Time
	longest time.Duration // 0: it is as long as it takes
}

// late reports whether an error is that the answer does not come in time.
func (w waiting) late(err error) bool {
	return w.longest > 0 && isCode(err, abi.DeadlineExceeded) && time.Since(w.begun) >= w.longest
}

// silent is the error of an engine that does not answer.
func (w waiting) silent() error {
	return abi.NewRecoverableError(abi.DeadlineExceeded, "the engine does not answer "+w.request+" within "+w.longest.Round(100*time.Millisecond).String())
}

// broken is what is wrong with the answer where reading it fails.
func (w waiting) broken(err error) error {
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return err
	case w.late(err):
		return w.silent()
	}
	return about("the engine's answer to "+w.request, err)
}

// send sends a request. A response that is no success is an error.
func (e engine) send(ctx context.Context, r request) (*answer, error) {
	u := e.base + r.path
	if len(r.query) > 0 {
		u += "?" + r.query.Encode()
	}
	if r.body != nil {
		r.header = append(r.header, &plainhttp.Header{Name: "Content-Type", Value: "application/json"})
	}
	w := waiting{r.method + " " + r.path, time.Now(), r.within(ctx)}
	verified, err := e.tlsOptions()
	if err != nil {
		return nil, err
	}
	received, err := plainhttp.Do(ctx, &plainhttp.Request{
		Method: r.method, URL: u, Socket: e.socket, TLS: verified, Header: r.header, Body: r.body, Stream: r.stream, Timeout: w.longest,
	})
	if w.late(err) {
		err = w.silent()
	}
	if err != nil {
		return nil, err
	}
	response := &answer{received, w}
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

// refusal is an engine's answer that is no success, in one line. An engine that fails or is full may
// not be so another time; what it does not take, it never will.
func refusal(status int, text []byte) *abi.Error {
	message := string(text)
	if v, err := config.Parse(text); err == nil && v.Get("message").Text() != "" {
		message = v.Get("message").Text()
	}
	if message = strings.Join(strings.Fields(message), " "); message == "" {
		message = "status " + strconv.Itoa(status)
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
	case status == 501:
		return abi.NewError(abi.Unimplemented, message)
	case status < 500 && status != 408 && status != 429:
		return abi.NewError(abi.InvalidArgument, message)
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
	text, err := io.ReadAll(io.LimitReader(response, maxAnswer+1))
	switch {
	case err != nil:
		return config.Value{}, err
	case len(text) > maxAnswer:
		return config.Value{}, abi.NewError(abi.ResourceExhausted, "the engine's answer to "+response.to.request+" has more than 4 MiB")
	}
	v, err := config.Parse(text)
	if err != nil && response.Status != 204 { // an engine that ends in the middle may cut it off
		return config.Value{}, abi.NewRecoverableError(abi.Unavailable, "the engine's answer to "+response.to.request+": "+err.Error())
	}
	return v, nil
}

func (e engine) get(ctx context.Context, path string, query url.Values) (config.Value, error) {
	return e.ask(ctx, request{method: "GET", path: path, query: query})
}

// inspect asks for the engine's description of a container, by its ID or name.
func (e engine) inspect(ctx context.Context, container string) (config.Value, error) {
	return e.get(ctx, "/containers/"+container+"/json", nil)
}

func (e engine) post(ctx context.Context, r request) error {
	r.method = "POST"
	return e.tell(ctx, r)
}

func (e engine) delete(ctx context.Context, path string, query url.Values) error {
	return e.tell(ctx, request{method: "DELETE", path: path, query: query})
}

// tell sends a request whose answer does not matter.
func (e engine) tell(ctx context.Context, r request) error {
	response, err := e.send(ctx, r)
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
