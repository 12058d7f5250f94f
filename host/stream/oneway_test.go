package stream_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host/stream"
)

// closing is a writer that a test looks into.
type closing struct {
	bytes.Buffer
	closed int
}

func (c *closing) Close() error { c.closed++; return nil }

func TestAStreamOfOneWayHasNoOther(t *testing.T) {
	in, ctx, buf := table(t), t.Context(), make([]byte, 100)
	source, err := in.Open()
	require.NoError(t, err)
	source.Source(io.NopCloser(strings.NewReader("hello")))
	n, err := in.Read(ctx, source.ID, buf)
	require.NoError(t, err)
	require.Equal(t, "hello", string(buf[:n]))
	_, err = in.Read(ctx, source.ID, buf)
	require.ErrorIs(t, err, io.EOF)
	_, err = in.Write(ctx, source.ID, buf)
	require.Equal(t, abi.FailedPrecondition, abi.CodeOf(err))

	sink, err := in.Open()
	require.NoError(t, err)
	to := &closing{}
	sink.Sink(to)
	_, err = in.Write(ctx, sink.ID, []byte("world"))
	require.NoError(t, err)
	_, err = in.Read(ctx, sink.ID, buf)
	require.ErrorIs(t, err, io.EOF)
	in.End(ctx, true)
	require.Equal(t, "world", to.String(), "what the guest has written when it returns arrives")
	require.Positive(t, to.closed)
}

func TestTheOtherSideOfAStreamOfOneWayCanGo(t *testing.T) {
	in, ctx := table(t), t.Context()
	gone := errors.New("gone")
	source, err := in.Open()
	require.NoError(t, err)
	from, feed := io.Pipe()
	source.Source(from)
	sink, err := in.Open()
	require.NoError(t, err)
	taken, to := io.Pipe()
	sink.Sink(to)
	_ = feed.CloseWithError(gone)
	_ = taken.CloseWithError(gone)
	_, err = in.Read(ctx, source.ID, make([]byte, 1))
	require.EqualError(t, err, "reading: gone")
	for err = nil; err == nil; {
		_, err = in.Write(ctx, sink.ID, make([]byte, 1))
	}
	require.EqualError(t, err, "writing: gone")
	require.Equal(t, abi.Unavailable, abi.CodeOf(err))
}

// Output arrives however slow its reader is, but for a call that is over.
func TestAnEndWaitsForASlowSinkAsLongAsItsCall(t *testing.T) {
	for name, c := range map[string]struct {
		flush, closed bool
		longest       time.Duration // of the call; 0: there is none
		took          time.Duration
	}{
		"to its end":             {true, false, 0, time.Hour},
		"one that was closed":    {true, true, 0, time.Hour},
		"until the call is over": {true, false, time.Minute, time.Minute},
		"after a fault":          {false, false, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := stream.NewTable(owner())
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.longest > 0 {
					time.AfterFunc(c.longest, cancel)
				}
				s, err := in.Open()
				require.NoError(t, err)
				slow, to := io.Pipe()
				s.Sink(to)
				begin := time.Now()
				got := make(chan string)
				go func() {
					time.Sleep(time.Hour)
					text, _ := io.ReadAll(slow)
					got <- string(text)
				}()
				_, err = in.Write(ctx, s.ID, []byte("late"))
				require.NoError(t, err)
				if c.closed {
					require.NoError(t, in.Close(s.ID))
				}
				in.End(ctx, c.flush)
				require.Equal(t, c.took, time.Since(begin))
				want := ""
				if c.took == time.Hour {
					want = "late"
				}
				require.Equal(t, want, <-got)
			})
		})
	}
}
