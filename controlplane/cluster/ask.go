package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// MaxAsked is how many questions of others are passed on to servers at once, of each kind: those that
// are answered at once, those that may be left open, and whose a token is, which nobody's other
// questions keep from being asked. Each may have an answer of wire.MaxMessage bytes.
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
// wait; 0: it comes at once. args are without the token and the region. decode reads the
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
	all := maps.Clone(args)
	if all == nil {
		all = map[string]any{}
	}
	all["Region"], all["AuthToken"], all["MaxQueryTime"] = cp.cfg.Region, token, wait
	var raw wire.Raw
	if err = cp.servers.nowFor(ctx, wait+answerTimeout, method, all, &raw); err != nil {
		done()
		return nil, nil, refusal(ctx, err)
	}
	return raw.Decode, done, nil
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

// denials are the texts with which servers refuse a caller, whatever they put before them.
var denials = []string{"Permission denied", "ACL token not found"}

// refusal gives an error of a question its status: the server's, or that it does not answer.
func refusal(ctx context.Context, err error) error {
	var remote *wire.RemoteError
	switch {
	case errors.As(err, &remote):
	case ctx.Err() != nil:
		return ctx.Err()
	case errdefs.ClassOf(err) != errdefs.Unknown:
		return err
	default:
		return errdefs.NewRecoverable(errdefs.Unavailable, "no server of the cluster answers: %v", err)
	}
	if parts := coded.FindStringSubmatch(remote.Text); parts != nil {
		if status, err := strconv.Atoi(parts[1]); err == nil && status >= http.StatusBadRequest {
			return &Refused{status, parts[2]}
		}
	}
	for _, denial := range denials {
		if strings.HasSuffix(remote.Text, denial) {
			return &Refused{http.StatusForbidden, denial}
		}
	}
	return &Refused{http.StatusInternalServerError, remote.Text}
}

// Addresses are the RPC addresses of the servers that are known, the configured ones first.
func (cp *ControlPlane) Addresses() []string { return cp.servers.list() }
