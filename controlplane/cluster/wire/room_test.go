package wire

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type ask struct{ Text string }

// Requests that are all within their own bound are refused once they are too much together, and
// the connection goes on.
func TestWhatIsAskedAtOnceIsBoundedInAll(t *testing.T) {
	arrived, answer := make(chan struct{}), make(chan struct{})
	text := strings.Repeat("x", 1<<20)
	raw, err := Marshal(ask{text})
	require.NoError(t, err)
	const most = 3
	node := Options{asking: int64(most * len(raw)), Handler: &Handler{
		Call: func(_ context.Context, method string, decode func(any) error) (any, error) {
			if method == "Wait" {
				arrived <- struct{}{}
				<-answer
			}
			var got ask
			err := decode(&got)
			return struct{ Length int }{len(got.Text)}, err
		},
		Streams: func(string) bool { return true },
		Stream:  func(context.Context, string, func(any) error, *Stream) error { return nil },
	}}
	ofNode, server := pairWith(t, node, Options{})
	done := make(chan error)
	for range most {
		go func() { done <- server.Call(context.Background(), "Wait", ask{text}, nil) }()
		<-arrived
	}
	require.Zero(t, ofNode.asking.left.Load())
	require.ErrorIs(t, server.Call(t.Context(), "More", ask{"x"}, nil), ErrClosed)
	_, err = server.Open(t.Context(), "Stream", ask{"x"})
	require.Error(t, err)
	close(answer)
	for range most {
		require.NoError(t, <-done)
	}
	var reply struct{ Length int }
	require.Eventually(t, func() bool { return server.Call(t.Context(), "More", ask{text}, &reply) == nil }, time.Minute, time.Millisecond)
	require.Equal(t, len(text), reply.Length)

	// All of it is given back, also of what was no value, or not all of one.
	st, err := server.Open(t.Context(), "Stream", ask{text})
	require.NoError(t, err)
	_, err = st.Receive()
	require.Error(t, err)
	st.Close()
	require.Eventually(t, func() bool { return ofNode.asking.left.Load() == int64(most*len(raw)) }, time.Minute, time.Millisecond)
}
