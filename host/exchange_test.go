package host_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/modtest"
)

func TestAnObserverAnswersInThePlaceOfCapabilities(t *testing.T) {
	const buffer = 64 << 10
	body := modtest.Code(
		modtest.I32Const(1), modtest.I32Const(messageAt), modtest.I32Const(5), modtest.Call(fnExecWrite), modtest.Drop,
		modtest.I32Const(1), modtest.I32Const(buffer), modtest.I32Const(9), modtest.Call(fnExecRead), modtest.Drop,
		answer(buffer, 9))
	p := newWorld(t, host.Limits{}).ready(t, commandGuest([]byte("hello"), abi.OpDriverFingerprint, body), host.Grants{})
	var seen []*host.Exchange
	played := map[string]host.Exchange{
		abi.FuncStreamWrite: {Count: 500},
		abi.FuncStreamRead:  {Answer: []byte("bytes without end")},
	}
	play := func(u host.CapabilityUse, x *host.Exchange) bool {
		x.Count, x.Answer = played[u.Function].Count, played[u.Function].Answer
		return played != nil
	}
	o := &host.Observer{Answers: play, Exchanged: func(_ host.CapabilityUse, x *host.Exchange) { seen = append(seen, x) }}
	got, err := p.Call(host.WithObserver(t.Context(), o), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	require.Equal(t, "bytes wit", string(got), "no more than there is room for")
	require.Equal(t, &host.Exchange{Number: 1, Request: []byte("hello"), Count: 5}, seen[0], "no more than it wanted to write")
	require.EqualValues(t, 9, seen[1].Room)
	require.EqualValues(t, 9, seen[1].Count)

	played, seen = nil, nil
	_, err = p.Call(host.WithObserver(t.Context(), o), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	require.Equal(t, abi.NotFound, seen[1].Code, "the real one knows no such stream")

	gone := errors.New("it is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	o.Answers = func(host.CapabilityUse, *host.Exchange) bool { cancel(gone); return true }
	_, err = p.Call(host.WithObserver(ctx, o), abi.OpDriverFingerprint, nil, nil)
	require.ErrorIs(t, err, gone)
	require.True(t, seen[len(seen)-1].Ended)
}

// TestAnObserverSeesWhatGoesBothWays lets a real capability answer.
func TestAnObserverSeesWhatGoesBothWays(t *testing.T) {
	event := mustMarshal(&wasmnodev1.TaskEvent{TaskId: "alloc/web/1", Message: "here"})
	w := newWorld(t, host.Limits{})
	p := w.ready(t, guest(event, map[string][]byte{abi.OpDriverFingerprint: ask(fnEvent, len(event))}).Bytes(), host.Grants{})
	var seen []*host.Exchange
	ctx := host.WithObserver(t.Context(), &host.Observer{Exchanged: func(_ host.CapabilityUse, x *host.Exchange) { seen = append(seen, x) }})
	_, err := p.Call(w.recordingEvents(ctx), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	_, err = p.Call(ctx, abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	require.Equal(t, &host.Exchange{Request: event}, seen[0])
	require.Equal(t, abi.FailedPrecondition, seen[1].Code, "nobody takes events")
	var m wasmnodev1.Error
	require.NoError(t, m.UnmarshalVT(seen[1].Answer))
	require.Equal(t, "a call of driver_fingerprint cannot send task events", m.Message)
}
