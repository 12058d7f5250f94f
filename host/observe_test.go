package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/modtest"
)

func TestAnObserverSeesAndFailsWhatAPluginAsksFor(t *testing.T) {
	event := mustMarshal(&wasmnodev1.TaskEvent{TaskId: "alloc/web/1", Message: "here"})
	refresh := modtest.Call(fnRefresh)
	w := newWorld(t, host.Limits{})
	p := w.ready(t, guest(event, map[string][]byte{abi.OpDriverFingerprint: append(refresh, ask(fnEvent, len(event))...)}).Bytes(), host.Grants{})
	var asks, asked []host.CapabilityUse
	var usage []host.CallUsage
	var fail error
	ctx := host.WithObserver(w.recordingEvents(t.Context()), &host.Observer{
		Asks:     func(u host.CapabilityUse) error { asks = append(asks, u); return fail },
		Asked:    func(u host.CapabilityUse) { asked = append(asked, u) },
		Returned: func(u host.CallUsage) { usage = append(usage, u) },
	})

	_, err := p.Call(ctx, abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	require.Len(t, w.events, 1)
	require.Len(t, asked, 2)
	require.Equal(t, host.CapabilityUse{Op: abi.OpDriverFingerprint, Module: abi.ModuleTask, Function: abi.FuncTaskRefresh}, asks[0])
	require.Equal(t, host.CapabilityUse{Op: abi.OpDriverFingerprint, Module: abi.ModuleTask, Function: abi.FuncTaskEvent, Answers: true}, asks[1])
	require.Positive(t, asked[1].Took)
	require.NoError(t, asked[1].Err)
	require.Len(t, usage, 1, "the instance had been configured")
	require.Equal(t, abi.OpDriverFingerprint, usage[0].Op)
	require.EqualValues(t, 64<<10, usage[0].Memory)
	require.Positive(t, usage[0].Guest)

	fail, asked = abi.NewRecoverableError(abi.Unavailable, "not now"), nil
	answer, err := p.Call(ctx, abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err, "what answers nothing cannot fail")
	require.Equal(t, fail, answeredError(t, answer))
	require.Len(t, w.events, 1, "it was not done")
	require.NoError(t, asked[0].Err)
	require.Equal(t, fail, asked[1].Err)

	fail, asked = nil, nil
	p = w.ready(t, guest([]byte{0xff}, map[string][]byte{abi.OpDriverFingerprint: ask(fnEvent, -1)}).Bytes(), host.Grants{})
	_, err = p.Call(ctx, abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	require.Equal(t, abi.ResourceExhausted, abi.CodeOf(asked[0].Err), "4 GiB are too much")
	p = w.ready(t, guest(nil, map[string][]byte{abi.OpDriverFingerprint: askAt(fnEvent, -2, 8)}).Bytes(), host.Grants{})
	_, err = p.Call(ctx, abi.OpDriverFingerprint, nil, nil)
	require.Error(t, err)
	require.True(t, asked[1].Ended)
}
