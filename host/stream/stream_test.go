package stream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host/stream"
	"github.com/wasmnode/wasmnode/sandbox"
)

const (
	readable = uint32(wasmnodev1.StreamEvent_STREAM_EVENT_READABLE)
	writable = uint32(wasmnodev1.StreamEvent_STREAM_EVENT_WRITABLE)
	ended    = uint32(wasmnodev1.StreamEvent_STREAM_EVENT_ENDED)
	response = uint32(wasmnodev1.StreamEvent_STREAM_EVENT_RESPONSE)
)

// owner is a plugin without a bound of memory.
func owner() *stream.Owner { return stream.NewOwner(sandbox.NewBudget(sandbox.Quota{}, nil)) }

// table is that of a call, which ends with the test.
func table(t testing.TB) *stream.Table {
	t.Helper()
	table := stream.NewTable(owner())
	t.Cleanup(func() { table.End(context.Background(), false) })
	return table
}

// connect opens a stream, and returns its ID and the other end of its connection.
func connect(t testing.TB, in *stream.Table) (uint32, net.Conn) {
	t.Helper()
	s, err := in.Open()
	require.NoError(t, err)
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = theirs.Close() })
	s.Connect(ours)
	return s.ID, theirs
}

func TestBytesGoBothWays(t *testing.T) {
	in, ctx, buf := table(t), t.Context(), make([]byte, 100)
	id, peer := connect(t, in)
	n, err := in.Write(ctx, id, []byte("hello"))
	require.NoError(t, err)
	require.Equal(t, 5, n)
	n, err = io.ReadFull(peer, buf[:5])
	require.NoError(t, err)
	require.Equal(t, "hello", string(buf[:n]))
	_, err = peer.Write([]byte("world"))
	require.NoError(t, err)
	n, err = in.Read(ctx, id, buf[:3])
	require.NoError(t, err)
	require.Equal(t, "wor", string(buf[:n]))
	require.NoError(t, peer.Close())
	n, err = in.Read(ctx, id, buf)
	require.NoError(t, err)
	require.Equal(t, "ld", string(buf[:n]), "what was there before the end")
	for range 2 {
		_, err = in.Read(ctx, id, buf)
		require.ErrorIs(t, err, io.EOF)
	}
}

// A pipe between guest and peer is full at its bound, and a full one holds up the writer alone.
func TestAFullStreamHoldsUpWhoWrites(t *testing.T) {
	in, ctx := table(t), t.Context()
	id, peer := connect(t, in)
	require.NoError(t, in.SetBlocking(id, false))
	total := 0 // one pipe, and what its goroutine has in hand
	require.Eventually(t, func() bool {
		n, err := in.Write(ctx, id, make([]byte, 3*stream.PipeBytes))
		require.LessOrEqual(t, n, stream.PipeBytes)
		total += n
		return total >= 2*stream.PipeBytes || err != nil && !errors.Is(err, stream.ErrWouldBlock)
	}, time.Minute, time.Millisecond)
	require.Equal(t, 2*stream.PipeBytes, total)
	_, err := in.Write(ctx, id, make([]byte, 1))
	require.ErrorIs(t, err, stream.ErrWouldBlock)
	hold, err := in.Poll(ctx, []*wasmnodev1.StreamPollEntry{{Stream: id, Events: writable}}, 0)
	require.NoError(t, err)
	require.Empty(t, hold)

	var sent atomic.Int64 // an endless sender, which nobody reads
	go func() {
		for {
			n, err := peer.Write(make([]byte, 1<<10))
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}()
	hold, err = in.Poll(ctx, []*wasmnodev1.StreamPollEntry{{Stream: id, Events: readable | writable}}, -1)
	require.NoError(t, err)
	require.Equal(t, readable, hold[0].Events)
	before := int64(-1)
	require.Eventually(t, func() bool { // it has come to a halt
		defer func() { before = sent.Load() }()
		return sent.Load() == before
	}, time.Minute, 10*time.Millisecond)
	require.LessOrEqual(t, sent.Load(), int64(2*stream.PipeBytes))
	n, err := in.Read(ctx, id, make([]byte, 10*stream.PipeBytes))
	require.NoError(t, err)
	require.LessOrEqual(t, n, stream.PipeBytes)
}

func TestAPollTellsWhichStreamsCanGoOn(t *testing.T) {
	in, ctx := table(t), t.Context()
	first, _ := connect(t, in)
	second, peer := connect(t, in)
	ask := func(events uint32) []*wasmnodev1.StreamPollEntry {
		return []*wasmnodev1.StreamPollEntry{{Stream: first, Events: events}, {Stream: second, Events: events}}
	}
	hold, err := in.Poll(ctx, ask(readable), 10*time.Millisecond)
	require.NoError(t, err)
	require.Empty(t, hold, "the time is over")
	go func() { _, _ = peer.Write([]byte("x")) }()
	hold, err = in.Poll(ctx, ask(readable), -1)
	require.NoError(t, err)
	require.Equal(t, []*wasmnodev1.StreamPollEntry{{Stream: second, Events: readable}}, hold)
	_, err = in.Read(ctx, second, make([]byte, 1))
	require.NoError(t, err)
	_ = peer.Close()
	hold, err = in.Poll(ctx, ask(readable), -1)
	require.NoError(t, err)
	require.Equal(t, []*wasmnodev1.StreamPollEntry{{Stream: second, Events: readable | ended}}, hold)
	hold, err = in.Poll(ctx, ask(writable), 0)
	require.NoError(t, err)
	require.Len(t, hold, 2)
	hold, err = in.Poll(ctx, ask(response), 0)
	require.NoError(t, err)
	require.Empty(t, hold, "neither is one of HTTP")
	_, err = in.Poll(ctx, []*wasmnodev1.StreamPollEntry{{Stream: 99}}, -1)
	require.Equal(t, abi.NotFound, abi.CodeOf(err))
	most := slices.Repeat(ask(writable), stream.PollEntries/2)
	hold, err = in.Poll(ctx, most, 0)
	require.NoError(t, err)
	require.Len(t, hold, 256)
	_, err = in.Poll(ctx, append(most, most[0]), -1)
	require.Equal(t, abi.InvalidArgument, abi.CodeOf(err))
}

func TestWaitingEndsWithItsCall(t *testing.T) {
	in := table(t)
	id, _ := connect(t, in)
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	time.AfterFunc(10*time.Millisecond, func() { cancel(over) })
	_, err := in.Read(ctx, id, make([]byte, 1))
	require.ErrorIs(t, err, over)
}

func TestAStreamThatWasShutOrClosed(t *testing.T) {
	in, ctx := table(t), t.Context()
	id, peer := connect(t, in)
	require.NoError(t, in.Shutdown(id))
	_, err := in.Write(ctx, id, []byte("x"))
	require.Equal(t, abi.FailedPrecondition, abi.CodeOf(err))
	go func() { _, _ = peer.Write([]byte("x")) }()
	_, err = in.Read(ctx, id, make([]byte, 1))
	require.NoError(t, err, "the other way goes on")
	require.NoError(t, in.Close(id))
	for _, err := range []error{in.Close(id), in.Shutdown(id), in.SetBlocking(id, true)} {
		require.Equal(t, abi.NotFound, abi.CodeOf(err))
	}
	_, err = in.Read(ctx, id, make([]byte, 1))
	require.Equal(t, abi.NotFound, abi.CodeOf(err))
	_, err = peer.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// What is there is bounded: in a call, in a plugin, and by the plugin's memory. All places come
// back.
func TestThousandsOfStreams(t *testing.T) {
	of := owner()
	var calls []*stream.Table
	for range stream.PerPlugin / stream.PerCall {
		in := stream.NewTable(of)
		calls = append(calls, in)
		for range stream.PerCall {
			connect(t, in)
		}
		_, err := in.Open()
		require.ErrorContains(t, err, "the call has 256 streams open")
	}
	require.Equal(t, stream.PerPlugin, of.Open())
	_, err := stream.NewTable(of).Open()
	require.ErrorContains(t, err, "the plugin has 4096 streams open")
	require.Equal(t, abi.ResourceExhausted, abi.CodeOf(err))
	for _, in := range calls {
		in.End(t.Context(), true)
	}
	require.Zero(t, of.Open())

	budget := sandbox.NewBudget(sandbox.Quota{Memory: 3 * 2 * stream.PipeBytes}, nil)
	in := stream.NewTable(stream.NewOwner(budget))
	for range 3 {
		_, err := in.Open()
		require.NoError(t, err)
	}
	_, err = in.Open()
	require.ErrorContains(t, err, "no memory left")
	in.End(t.Context(), false)
	require.Zero(t, budget.Memory())
}

// Many streams and one guest: each byte arrives once, whoever is slow.
func TestManyStreamsAreReadByOnePoll(t *testing.T) {
	const streams, bytes = 50, 100 << 10
	in, ctx := table(t), t.Context()
	var ask []*wasmnodev1.StreamPollEntry
	for range streams {
		id, peer := connect(t, in)
		ask = append(ask, &wasmnodev1.StreamPollEntry{Stream: id, Events: readable})
		go func() {
			_, _ = io.Copy(peer, strings.NewReader(strings.Repeat("x", bytes)))
			_ = peer.Close()
		}()
	}
	got, buf := map[uint32]int{}, make([]byte, 1000)
	for len(ask) > 0 {
		hold, err := in.Poll(ctx, ask, -1)
		require.NoError(t, err)
		for _, e := range hold {
			n, err := in.Read(ctx, e.Stream, buf)
			got[e.Stream] += n
			if errors.Is(err, io.EOF) {
				require.Equal(t, bytes, got[e.Stream])
				for i := range ask {
					if ask[i].Stream == e.Stream {
						ask = append(ask[:i:i], ask[i+1:]...)
						break
					}
				}
				continue
			}
			require.NoError(t, err)
		}
	}
	require.Len(t, got, streams)
}

func TestAnExchangeThatFails(t *testing.T) {
	in, ctx := table(t), t.Context()
	s, err := in.Open()
	require.NoError(t, err)
	_, err = in.Trailers(s.ID)
	require.Equal(t, abi.FailedPrecondition, abi.CodeOf(err))
	s.Exchange(false, func(context.Context, io.ReadCloser) (*http.Response, net.Conn, error) { return nil, nil, io.EOF })
	_, err = in.Response(ctx, s.ID) //nolint:bodyclose // it is the stream's
	require.EqualError(t, err, "the request: EOF")
	_, err = in.Read(ctx, s.ID, make([]byte, 1))
	require.EqualError(t, err, "the request: EOF", "which is no end of a body")
	require.NotErrorIs(t, err, stream.ErrWouldBlock, "a guest would try again for ever")
	_, err = in.Trailers(s.ID)
	require.Equal(t, abi.FailedPrecondition, abi.CodeOf(err))
}

// An upgrade that succeeds while the call ends leaves no connection that nobody closes.
func TestAnUpgradeThatComesTooLate(t *testing.T) {
	in := stream.NewTable(owner())
	s, err := in.Open()
	require.NoError(t, err)
	ours, theirs := net.Pipe()
	s.Exchange(false, func(ctx context.Context, _ io.ReadCloser) (*http.Response, net.Conn, error) {
		<-ctx.Done() // the stream is at its end
		return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: ours}, ours, nil
	})
	in.End(t.Context(), true)
	_, err = theirs.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// A server that answers before it has read the request's body ends the writing.
func TestABodyThatNobodyReads(t *testing.T) {
	in, ctx := table(t), t.Context()
	s, err := in.Open()
	require.NoError(t, err)
	s.Exchange(true, func(_ context.Context, body io.ReadCloser) (*http.Response, net.Conn, error) {
		return &http.Response{Body: http.NoBody}, nil, body.Close()
	})
	for err == nil {
		_, err = in.Write(ctx, s.ID, make([]byte, stream.PipeBytes))
	}
	require.ErrorContains(t, err, "does not read the rest")
	_, err = in.Response(ctx, s.ID) //nolint:bodyclose // it is the stream's
	require.NoError(t, err)
}
