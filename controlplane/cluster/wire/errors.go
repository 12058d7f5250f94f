package wire

import (
	"errors"
	"fmt"
	"strings"
)

// ErrGarbage is of what a peer has sent and is none of the protocol, or beyond its bounds.
// Its connection is closed.
var ErrGarbage = errors.New("not understood")

// ErrClosed is of a session that was closed, or whose connection is lost.
var ErrClosed = errors.New("connection closed")

// A RemoteError is what the other side has answered instead of a reply. The connection is
// as good as before.
type RemoteError struct {
	Method string
	Text   string // as it came: callers look for what Nomad's servers are known to say
	Code   int    // a status of HTTP that came with it; 0: none did
}

// Error tells what was asked, and what was answered.
func (e *RemoteError) Error() string { return e.Method + ": " + e.Text }

// Says reports whether err is an answer of the other side that has a text in it.
func Says(err error, text string) bool {
	var remote *RemoteError
	return errors.As(err, &remote) && strings.Contains(remote.Text, text)
}

// A CodedError is a handler's answer with an HTTP status, which the server passes on to
// whoever has asked it. Other errors of handlers are passed on as 500.
type CodedError struct {
	Code int
	Text string
}

// Error returns the text.
func (e *CodedError) Error() string { return e.Text }

// errorText is a handler's error as it goes into a response.
func errorText(err error) string {
	var coded *CodedError
	if errors.As(err, &coded) {
		return fmt.Sprintf("RPC Error:: %d,%s", coded.Code, coded.Text)
	}
	return err.Error()
}
