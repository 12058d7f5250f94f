package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// MaxAsked is how many questions of others are passed on to servers at once, of each kind: those that
// are answered at once, those that may be left open, streams, and whose a token is, which nobody's
// other questions keep from being asked. Each may have an answer of wire.MaxMessage bytes; what
// comes of a stream at once has at most wire.MaxAsk.
const MaxAsked = 64

// Refused is a server's answer that it does not answer.
type Refused struct {
	Status int // of HTTP
	Text   string
}

// HTTPStatus is how a client is to be answered.
func (r *Refused) HTTPStatus() int { return r.Status }

// Error implements error.
func (r *Refused) Error() string { return r.Text }

// Ask asks the server that is connected on behalf of whoever shows a token, by which it decides
// what it answers: the node says nothing of itself. The answer may be left open for as long as
// wait; 0: it comes at once. args are without the token, and without the region unless it is another
// one than the node's. decode reads the
// answer into a struct, whose fields are called as in Nomad's JSON, until done is called, which
// the caller has to. With no server it fails at once. Errors are a [Refused], or have a class.
func (cp *ControlPlane) Ask(ctx context.Context, method, token string, wait time.Duration, args map[string]any) (decode func(any) error, done func(), err error) {
	places := cp.asked
	if wait > 0 {
		places = cp.leftOpen
	}
	if done, err = places.enter(); err != nil {
		return nil, nil, err
	}
	all := cp.onBehalf(token, args)
	all["MaxQueryTime"] = wait
	var raw wire.Raw
	if err = cp.servers.nowFor(ctx, wait+answerTimeout, method, all, &raw); err != nil {
		done()
		return nil, nil, refusal(ctx, err)
	}
	return raw.Decode, done, nil
}

// onBehalf are the arguments of what is asked for whoever shows a token.
func (cp *ControlPlane) onBehalf(token string, args map[string]any) map[string]any {
	all := map[string]any{"Region": cp.cfg.Region}
	maps.Copy(all, args)
	all["AuthToken"] = token
	return all
}

// Stream starts a streaming request at the server that is connected, on behalf of whoever shows a
// token, as Ask does. It has its place until it is closed, or ctx is done. Until then the
// connection that it is on is not left for another server.
func (cp *ControlPlane) Stream(ctx context.Context, method, token string, args map[string]any) (clientapi.ServerStream, error) {
	done, err := cp.streamed.enter()
	if err != nil {
		return nil, err
	}
	opening, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	st, err := cp.servers.open(opening, method, cp.onBehalf(token, args))
	if err != nil {
		done()
		return nil, refusal(ctx, err)
	}
	asked := &askedStream{Stream: st, ctx: ctx, done: done}
	context.AfterFunc(ctx, asked.Close)
	return asked, nil
}

// askedStream is one that somebody else reads.
type askedStream struct {
	*wire.Stream
	ctx  context.Context
	done func()
	once sync.Once
}

// Receive implements [clientapi.ServerStream].
func (s *askedStream) Receive() ([]byte, error) {
	b, err := s.Stream.Receive()
	return b, s.refusal(err)
}

// Decode implements [clientapi.ServerStream].
func (s *askedStream) Decode(v any) error { return s.refusal(s.Stream.Decode(v)) }

// refusal leaves the end of a stream as it is.
func (s *askedStream) refusal(err error) error {
	if err == nil || errors.Is(err, io.EOF) && s.ctx.Err() == nil {
		return err
	}
	return refusal(s.ctx, err)
}

// SendBytes implements [clientapi.ServerStream].
func (s *askedStream) SendBytes(b []byte) error { return s.Send(b) }

// SendFailure implements [clientapi.ServerStream].
func (s *askedStream) SendFailure(text string) error {
	return s.SendValue(map[string]any{"Error": map[string]any{"Message": text}})
}

// Close implements [clientapi.ServerStream].
func (s *askedStream) Close() {
	s.once.Do(func() {
		s.Stream.Close()
		s.done()
	})
}

// places are those of questions of one kind that are under way.
type places chan struct{}

// enter takes a place, until done.
func (p places) enter() (done func(), err error) {
	select {
	case p <- struct{}{}:
		return func() { <-p }, nil
	default:
		return nil, &Refused{http.StatusTooManyRequests, fmt.Sprintf("the node asks its servers %d things at once already: try again", MaxAsked)}
	}
}

// coded is how servers write an error with a status of HTTP.
var coded = regexp.MustCompile(`RPC Error:: (\d{3}),(?s)(.*)$`)

// told are the texts that servers' errors end with whose status is another than 500, whatever they
// put before them.
var told = map[string]int{
	"Permission denied":   http.StatusForbidden,
	"ACL token not found": http.StatusForbidden,
	"Job registration, dispatch, and scale are disabled by the scheduler configuration": http.StatusForbidden,
	"Filter expression cannot be used with other filter parameters":                     http.StatusBadRequest,
}

// refusal gives an error of a question its status: the server's, or that it does not answer.
func refusal(ctx context.Context, err error) error {
	var remote *wire.RemoteError
	switch {
	case errors.As(err, &remote):
	case ctx.Err() != nil:
		return ctx.Err()
	case errdefs.ClassOf(err) != errdefs.Unknown:
		return err
	case errors.Is(err, wire.ErrGarbage):
		return &Refused{http.StatusBadGateway, fmt.Sprintf("the answer of the cluster's server is beyond what this node takes: %v", err)}
	default:
		return errdefs.NewRecoverable(errdefs.Unavailable, "no server of the cluster answers: %v", err)
	}
	if parts := coded.FindStringSubmatch(remote.Text); parts != nil {
		if status, err := strconv.Atoi(parts[1]); err == nil && status >= http.StatusBadRequest {
			return &Refused{status, parts[2]}
		}
	}
	for text, status := range told {
		if strings.HasSuffix(remote.Text, text) {
			return &Refused{status, text}
		}
	}
	switch {
	case remote.Code >= http.StatusBadRequest && remote.Code < 600:
		return &Refused{remote.Code, remote.Text}
	case strings.HasPrefix(remote.Text, unknownMethod), strings.HasPrefix(remote.Text, unknownStream):
		return &Refused{http.StatusNotImplemented, fmt.Sprintf("the servers of the cluster do not know %s: they are older than what is asked", remote.Method)}
	}
	return &Refused{http.StatusInternalServerError, remote.Text}
}

// Addresses are the RPC addresses of the servers that are known, the configured ones first.
func (cp *ControlPlane) Addresses() []string { return cp.servers.list() }
