package host_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/host/recent"
	"github.com/wasmnode/wasmnode/internal/modtest"
)

func readAll[T any](t *testing.T, r *recent.Reader[T]) (all []T) {
	t.Helper()
	for {
		v, lost, err := r.Read()
		require.Zero(t, lost)
		if err != nil {
			return all
		}
		all = append(all, v)
	}
}

func TestWhatAPluginLogsIsKeptUnderItsName(t *testing.T) {
	fields := mustMarshal(&wasmnodev1.LogFields{Fields: []*wasmnodev1.LogField{{Key: "port", Value: "\x1b80"}}})
	body := modtest.Code(logLine(1, 4, len(fields)), answer(0, 0))
	w := newWorld(t, host.Limits{})
	require.Nil(t, w.LogLines("test", 10), "nothing of that name was loaded")
	wasm := guest(append([]byte("hi\x1b!"), fields...), map[string][]byte{abi.OpDriverStartTask: body, abi.OpDriverFingerprint: modtest.Unreachable}).Bytes()
	p := w.ready(t, wasm, host.Grants{})
	r := w.LogLines("test", 10)
	scope := taskScope(t)
	scope.Config.AllocId, scope.Config.Name = "alloc", "web"
	_, err := p.Call(t.Context(), abi.OpDriverStartTask, nil, scope)
	require.NoError(t, err)
	lines := readAll(t, r)
	require.Len(t, lines, 1)
	require.WithinDuration(t, time.Now(), lines[0].Time, testTimeout)
	lines[0].Time = time.Time{}
	require.Equal(t, host.LogLine{
		Level: "trace", Version: "1.0.0", AllocID: "alloc", Task: "web", Message: `hi\u001b!`, Fields: map[string]string{"port": `\u001b80`},
	}, lines[0])

	// Another version of the plugin goes on, and so does who reads.
	p.Close()
	p = w.ready(t, wasm, host.Grants{})
	_, err = p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.Error(t, err)
	lines = readAll(t, r)
	require.Len(t, lines, 1)
	require.Equal(t, "warn", lines[0].Level)
	require.Equal(t, err.Error(), lines[0].Fields["error"])
	require.Len(t, readAll(t, w.LogLines("test", 10)), 2)
}

func TestOfAPluginsLinesSoManyBytesAreKept(t *testing.T) {
	text := strings.Repeat("x", 8<<10)
	body := modtest.Code(modtest.Times(40, 1, logLine(3, len(text), 0)), answer(0, 0))
	p := newWorld(t, host.Limits{LogBytesPerSec: 64 << 20})
	plugin := p.ready(t, guest([]byte(text), map[string][]byte{abi.OpDriverFingerprint: body}).Bytes(), host.Grants{})
	_, err := plugin.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	lines := readAll(t, p.LogLines("test", 1000))
	require.Len(t, lines, (256<<10)/(8<<10+host.KeptOverhead))
}

func TestNamesOfPluginsThatAreGoneAreBounded(t *testing.T) {
	h := newWorld(t, host.Limits{}).Host
	for i := range 64 {
		host.WatchAndLeave(h, strings.Repeat("a", i+1))
	}
	require.NotNil(t, h.LogLines("a", 1))
	require.Equal(t, 64, host.Watches(h))
	host.WatchAndLeave(h, "another")
	require.NotNil(t, h.LogLines("another", 1))
	require.Equal(t, 64, host.Watches(h))
}

func TestCallsAreTracedWhileSomebodyAsks(t *testing.T) {
	scope := taskScope(t)
	scope.Config.AllocId, scope.Config.Name = "alloc", "web"
	event := mustMarshal(&wasmnodev1.TaskEvent{TaskId: scope.Config.Id, Message: "here"})
	send := modtest.Code(modtest.I32Const(messageAt), modtest.I32Const(int32(len(event))), modtest.Call(fnEvent), modtest.Drop)
	w := newWorld(t, host.Limits{EventsPerSec: 1000})
	p := w.ready(t, guest(event, map[string][]byte{
		abi.OpDriverStartTask:   modtest.Code(send, answer(0, 0)),
		abi.OpDriverWaitTask:    modtest.Code(modtest.Times(70, 1, send), answer(0, 0)),
		abi.OpDriverFingerprint: modtest.Unreachable,
	}).Bytes(), host.Grants{})
	call := func(op string, scope *host.TaskScope) { _, _ = p.Call(w.recordingEvents(t.Context()), op, nil, scope) }
	none, stop := w.Trace("other")
	require.Nil(t, none)
	stop()

	call(abi.OpDriverStartTask, scope)
	r, stop := w.Trace("test")
	call(abi.OpDriverStartTask, scope)
	call(abi.OpDriverFingerprint, nil)
	call(abi.OpDriverWaitTask, scope)
	stop()
	stop() // twice is not an error
	call(abi.OpDriverStartTask, scope)
	calls := readAll(t, r)
	require.Len(t, calls, 3, "those that began while it was traced")

	c := calls[0]
	require.Equal(t, []string{abi.OpDriverStartTask, "alloc", "web", "1.0.0", ""}, []string{c.Operation, c.AllocID, c.Task, c.Version, c.Error})
	require.Positive(t, c.Took)
	require.Positive(t, c.Memory)
	require.Len(t, c.Uses, 1)
	require.Equal(t, []string{abi.OpDriverStartTask, abi.ModuleTask, abi.FuncTaskEvent, ""}, []string{c.Uses[0].Operation, c.Uses[0].Module, c.Uses[0].Function, c.Uses[0].Error})

	require.Equal(t, "plugin test trapped in driver_fingerprint: wasm error: unreachable", calls[1].Error)
	require.Empty(t, calls[1].AllocID)
	require.Len(t, calls[2].Uses, 64)
	require.Equal(t, 6, calls[2].UsesLeft)
}
