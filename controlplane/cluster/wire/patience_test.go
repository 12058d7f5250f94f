package wire

import (
	"context"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
	"github.com/stretchr/testify/require"
)

// soon is a bound of a test, within which what it waits for comes about.
const soon = 20 * time.Millisecond

// await waits for what ends, and fails the test where it does not.
func await(t *testing.T, ended <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		require.Fail(t, what)
	}
}

// raw opens a stream of a server's that sends bytes as they are.
func raw(t *testing.T, server *Session, parts ...[]byte) *yamux.Stream {
	t.Helper()
	conn, err := server.mux.OpenStream()
	require.NoError(t, err)
	for _, part := range parts {
		_, err = conn.Write(part)
		require.NoError(t, err)
	}
	return conn
}

// request is a request without its arguments.
func request(t *testing.T, method string, seq uint64) []byte {
	t.Helper()
	head, err := Marshal(requestHeader{method, seq})
	require.NoError(t, err)
	return head
}

// unfinished is the start of a value of almost as many bytes as may be.
func unfinished() []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0xdb}, MaxAsk-5), make([]byte, 1000)...)
}

// ended returns what is closed once the other side has ended a stream, whatever it sent before.
func ended(conn *yamux.Stream) <-chan struct{} {
	end := make(chan struct{})
	go func() {
		defer close(end)
		_, _ = io.Copy(io.Discard, conn)
	}()
	return end
}

// answers waits until the other side answers: one with little patience may find the first
// request of a stream late on a machine that has much to do.
func answers(t *testing.T, server *Session) {
	t.Helper()
	require.Eventually(t, func() bool {
		return server.Call(t.Context(), "Echo.Say", echo{}, nil) == nil
	}, time.Minute, time.Millisecond)
}

func TestARequestThatHasBegunHasToGoOn(t *testing.T) {
	empty, err := Marshal(struct{}{})
	require.NoError(t, err)
	for name, next := range map[string][]byte{
		"arguments that do not end": append(request(t, "Echo.Say", 2), unfinished()...),
		"no arguments":              request(t, "Echo.Say", 2),
		"half a header":             request(t, "Echo.Say", 2)[:7],
	} {
		for after := range 2 { // the first request of a stream, and one after another
			node, server := pairWith(t, Options{Handler: echoing, start: soon}, Options{})
			sent := []byte{byteRPC}
			for range after {
				sent = append(append(sent, request(t, "Echo.Say", 1)...), empty...)
			}
			await(t, ended(raw(t, server, sent, next)), name)
			require.Eventually(t, func() bool { return len(node.places) == 0 }, time.Minute, time.Millisecond)
			answers(t, server) // it costs the stream alone
		}
	}
}

func TestTheNextRequestMayBeLongInComing(t *testing.T) {
	_, server := pairWith(t, Options{Handler: echoing, start: soon}, Options{})
	answers(t, server)
	opened := server.idle[0]
	late := raw(t, server, []byte{byteRPC}) // which lasts for as long as the node's patience
	await(t, ended(late), "a stream without a request")
	require.NoError(t, server.Call(t.Context(), "Echo.Say", echo{}, nil))
	require.Len(t, server.idle, 1)
	require.Same(t, opened, server.idle[0], "the stream is still there")
}

func TestAValueOfAStreamThatHasBegunHasToGoOn(t *testing.T) {
	failed := make(chan error, 1)
	_, server := pair(t, &Handler{
		Streams: func(string) bool { return true },
		Stream: func(_ context.Context, _ string, _ func(any) error, st *Stream) error {
			st.rest = soon
			var v any
			err := st.Decode(&v)
			failed <- err
			return err
		},
	}, nil)
	st, err := server.Open(t.Context(), "Echo.Talk", echo{})
	require.NoError(t, err)
	defer st.Close()
	_, err = st.conn.Write(unfinished())
	require.NoError(t, err)
	select {
	case err := <-failed:
		require.ErrorIs(t, err, yamux.ErrTimeout)
	case <-time.After(time.Minute):
		require.Fail(t, "it still waits for the rest")
	}
}

// large answers with more than is sent to one that does not read.
func large(released chan struct{}) *Handler {
	return &Handler{Call: func(context.Context, string, func(any) error) (any, error) {
		return Held{
			Reply:   echo{Text: strings.Repeat("x", 1<<20)},
			Release: func() { close(released) },
		}, nil
	}}
}

func TestAnAnswerThatNobodyReadsIsLetGoOf(t *testing.T) {
	released := make(chan struct{})
	node, server := pairWith(t, Options{Handler: large(released), write: soon}, Options{})
	conn := raw(t, server, []byte{byteRPC}, request(t, "A.B", 1), []byte{0x80})
	await(t, released, "the answer is still kept")
	require.Eventually(t, func() bool { return len(node.places) == 0 }, time.Minute, time.Millisecond)
	got, err := io.Copy(io.Discard, conn)
	require.NoError(t, err)
	require.Less(t, got, int64(1<<20), "the stream has ended within the answer")
}

func TestWhatIsHeldForAReplyIsHeldUntilItIsWritten(t *testing.T) {
	released := make(chan struct{})
	_, server := pair(t, large(released), nil)
	conn := raw(t, server, []byte{byteRPC}, request(t, "A.B", 1), []byte{0x80})
	_, err := io.ReadFull(conn, make([]byte, 1))
	require.NoError(t, err)
	select {
	case <-released:
		require.Fail(t, "the answer is not written yet")
	default:
	}
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err = io.ReadFull(conn, make([]byte, 1<<20))
	require.NoError(t, err)
	await(t, released, "the answer is written")
}

func TestAnErrorThatNobodyReadsEndsItsStream(t *testing.T) {
	node, server := pairWith(t, Options{write: soon, Handler: &Handler{
		Streams: func(string) bool { return true },
		Stream: func(_ context.Context, _ string, _ func(any) error, st *Stream) error {
			_ = st.conn.SetWriteDeadline(time.Unix(1, 0))
			err := st.Send(make([]byte, 1<<20)) // until there is no room for more
			_ = st.conn.SetWriteDeadline(time.Time{})
			return err
		},
	}}, Options{})
	st, err := server.Open(t.Context(), "Echo.Say", echo{})
	require.NoError(t, err)
	defer st.Close()
	require.Eventually(t, func() bool { return len(node.places) == 0 }, time.Minute, time.Millisecond)
	_, err = io.Copy(io.Discard, st.r)
	require.NoError(t, err)
}

func TestACallOverAStreamThatWasKeptTellsThatTheSessionIsOver(t *testing.T) {
	node, server := pair(t, nil, echoing)
	require.NoError(t, node.Call(t.Context(), "Echo.Say", echo{}, nil))
	require.Len(t, node.idle, 1)
	server.Close()
	<-node.Done()
	require.ErrorIs(t, node.Call(t.Context(), "Echo.Say", echo{}, nil), ErrClosed)
}

func TestHangingUpDoesNotWaitForAHandler(t *testing.T) {
	asked, told, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	node, server := pair(t, &Handler{Call: func(ctx context.Context, _ string, _ func(any) error) (any, error) {
		close(asked)
		<-ctx.Done()
		close(told)
		<-release
		return nil, nil
	}}, nil)
	go func() { _ = server.Call(t.Context(), "A.B", struct{}{}, nil) }()
	<-asked
	node.HangUp()
	<-node.Done()
	await(t, told, "the handler is not told")
	require.ErrorIs(t, node.Call(t.Context(), "A.B", struct{}{}, nil), ErrClosed)
	require.Len(t, node.places, 1, "it still answers")
	close(release)
	node.Close()
	require.Empty(t, node.places)
}
