package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/internal/acl"
)

const (
	// maxHandshakes is how many websockets may be open at once whose client has still to say
	// who it is: few of them keep anything for nobody. Who shows a token in a header needs no place.
	maxHandshakes = 16
	// maxHandshake is how long what it says may be, in bytes.
	maxHandshake = 16 << 10
	// closeStatus is what a status of HTTP is added to where a websocket ends with it, as in
	// Nomad.
	closeStatus = 4000
)

// handshakeTime is how long a client has to say who it is; tests have another one.
var handshakeTime = 5 * time.Second

// handshake is a websocket's first message where the token comes with that, as Nomad's page
// sends it: browsers send no header of a page's choice with a websocket.
type handshake struct {
	Version   int    `json:"version"`
	AuthToken string `json:"auth_token"`
}

// handshakes reports whether a request of a pattern shows its token only in the first message of
// the websocket that it becomes.
func handshakes(r *http.Request, pattern string) bool {
	switch {
	case pattern == "GET /v1/client/allocation/{id}/exec":
	case pattern == "GET "+jobPattern && strings.HasSuffix(r.URL.Path, "/action"):
	default:
		return false
	}
	later, err := strconv.ParseBool(r.URL.Query().Get("ws_handshake"))
	return err == nil && later && websocket.IsWebSocketUpgrade(r)
}

// ofHandshake is what is needed to become a websocket that has still to show a token: the host and
// the origin are looked at, and nothing else is served.
var ofHandshake = access.Route{Needs: acl.Anyone}

// mayShakeHands takes one of few places, until done is called.
func (h *handler) mayShakeHands() (done func(), err error) {
	select {
	case h.shaking <- struct{}{}:
		return func() { <-h.shaking }, nil
	default:
		return nil, &access.Refusal{
			Status: http.StatusTooManyRequests, Reason: "handshakes", Text: "as many websockets as may wait for their clients' tokens do: try again later",
		}
	}
}

// shakeHands reads a websocket's first message, and returns the request with what its caller may.
func (h *handler) shakeHands(conn *websocket.Conn, r *http.Request) (*http.Request, error) {
	conn.SetReadLimit(maxHandshake)
	if err := conn.SetReadDeadline(time.Now().Add(h.patience)); err != nil {
		return nil, err
	}
	var first handshake
	if err := conn.ReadJSON(&first); err != nil {
		return nil, badRequest("the first message is no handshake: %v", err)
	}
	if first.Version != 1 {
		return nil, badRequest("the handshake has the version %d: 1 is what this node knows", first.Version)
	}
	if shown := access.Secret(r.Header); shown != "" && shown != first.AuthToken {
		return nil, badRequest("the handshake's token is not the one of the header")
	}
	r = r.Clone(r.Context())
	r.Header.Set(access.TokenHeader, first.AuthToken)
	c, err := h.callerFor(r, h.routeFor(r))
	if err != nil {
		return nil, err
	}
	r = withCaller(r, c)
	if method, pattern, _ := strings.Cut(r.Pattern, " "); !c.elsewhere {
		err = h.allow(method, pattern, r)
	}
	return r, errors.Join(err, conn.SetReadDeadline(time.Time{}))
}

// executeLater is executeOver of a request that has still to show its token. Why it is refused is told
// where the websocket ends: browsers show pages nothing of an answer that is none.
func (h *handler) executeLater(w http.ResponseWriter, r *http.Request, what execute) error {
	done, err := h.mayShakeHands()
	if err != nil {
		return err
	}
	conn, err := upgrade(w, r)
	if err != nil {
		done()
		return err
	}
	r, err = h.shakeHands(conn, r)
	done()
	var e execution
	if err == nil {
		e, err = what(r)
	}
	if err != nil {
		h.refuseSocket(conn, err)
		return nil
	}
	e(r.Context(), conn)
	return nil
}

// refuseSocket ends a websocket of whom is served nothing.
func (h *handler) refuseSocket(conn *websocket.Conn, err error) {
	status := statusOf(err)
	if refused := (*access.Refusal)(nil); errors.As(err, &refused) {
		h.Bounds.Count(refused.Reason)
		status = refused.Status
	}
	if told := (*statusError)(nil); errors.As(err, &told) {
		status = told.status
	}
	message := websocket.FormatCloseMessage(closeStatus+status, closeReason(err))
	_ = conn.WriteControl(websocket.CloseMessage, message, time.Now().Add(closeGrace)) // errors: the client has gone
	_ = conn.Close()
}
