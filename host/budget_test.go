package host_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/modtest"
)

// doing is a guest that does something in an operation of its own beside what every guest does.
func doing(op string, body ...[]byte) []byte {
	return guest(nil, map[string][]byte{op: modtest.Code(append(body, answer(0, 0))...)}).Bytes()
}

// touch has a guest grow its memory by 120 MB, fill that, and trap if it got none.
func touch() []byte {
	const pages = 120 << 4
	return modtest.Code(
		modtest.I32Const(pages), modtest.Grow, modtest.I32Const(-1), []byte{0x46, 0x04, 0x40}, modtest.Unreachable, []byte{0x0b},
		modtest.I32Const(1<<16), modtest.I32Const(1), modtest.I32Const(pages<<16), modtest.Fill)
}

func exhausted(t testing.TB, err error, says string) {
	t.Helper()
	require.Equal(t, abi.ResourceExhausted, abi.CodeOf(err), "%v", err)
	require.True(t, abi.IsRecoverable(err))
	require.ErrorContains(t, err, says)
	require.NotContains(t, err.Error(), "\n")
}

// A plugin's instances that wait hold what they touched: sixty of them killed an agent.
func TestWaitsThatTouchMemoryFailAtThePluginsBudget(t *testing.T) {
	const budget, all = 300 << 20, 1 << 30
	w := newWorld(t, host.Limits{PluginMemoryBytes: budget, AllMemoryBytes: all})
	hog := w.ready(t, doing(abi.OpDriverWaitTask, touch(), modtest.Loop(sleepLong())), host.Grants{})
	other := w.ready(t, doing(abi.OpDriverStopTask, touch()), host.Grants{})
	before := w.Memory()

	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 60)
	for range 60 {
		go func() {
			_, err := hog.Call(ctx, abi.OpDriverWaitTask, nil, nil)
			errs <- err
		}()
	}
	for range 58 {
		exhausted(t, <-errs, "plugin test got no more memory: its instances have ")
	}
	require.LessOrEqual(t, hog.Stats().MemoryBytes, uint64(budget))
	require.EqualValues(t, 58, hog.Stats().OutOfMemory)
	require.Empty(t, hog.Stats().Faults, "it is the node's bound, not the plugin's fault")
	_, err := hog.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err, "a call that needs little has it")
	_, err = other.Call(t.Context(), abi.OpDriverStopTask, nil, nil)
	require.NoError(t, err, "another plugin has memory")

	cancel()
	<-errs
	<-errs
	other.Close()
	require.Eventually(t, func() bool { return w.Memory() <= before }, testTimeout, time.Millisecond, "what was taken is given back")
}

func TestPluginsTogetherHaveABudgetOfMemory(t *testing.T) {
	w := newWorld(t, host.Limits{PluginMemoryBytes: 200 << 20, AllMemoryBytes: 300 << 20})
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 3)
	for range 3 {
		p := w.ready(t, doing(abi.OpDriverWaitTask, touch(), modtest.Loop(sleepLong())), host.Grants{})
		go func() {
			_, err := p.Call(ctx, abi.OpDriverWaitTask, nil, nil)
			errs <- err
		}()
	}
	exhausted(t, <-errs, "those of all plugins ")
	cancel()
	<-errs
	<-errs
}

// Two plugins that take all there is must not keep a third from its calls.
func TestAPluginHasALittleMemoryWhenOthersHaveTakenAll(t *testing.T) {
	w := newWorld(t, host.Limits{PluginMemoryBytes: 130 << 20, AllMemoryBytes: 250 << 20})
	ctx, cancel := context.WithCancel(t.Context())
	var waits sync.WaitGroup
	for range 2 {
		p := w.ready(t, doing(abi.OpDriverWaitTask, touch(), modtest.Loop(sleepLong())), host.Grants{})
		waits.Go(func() { _, _ = p.Call(ctx, abi.OpDriverWaitTask, nil, nil) })
	}
	defer waits.Wait()
	defer cancel()
	require.Eventually(t, func() bool { return w.Memory() > 240<<20 }, testTimeout, time.Millisecond)
	const fits, tooMuch = 14 << 4, 20 << 4
	grow := func(pages int32) []byte {
		return doing(abi.OpDriverStopTask, modtest.I32Const(pages), modtest.Grow, modtest.I32Const(-1), []byte{0x46, 0x04, 0x40}, modtest.Unreachable, []byte{0x0b})
	}
	_, err := w.ready(t, grow(fits), host.Grants{}).Call(t.Context(), abi.OpDriverStopTask, nil, nil)
	require.NoError(t, err)
	_, err = w.ready(t, grow(tooMuch), host.Grants{}).Call(t.Context(), abi.OpDriverStopTask, nil, nil)
	exhausted(t, err, "those of all plugins ")
}

func TestAPluginThatComputesWithoutEndIsOutOfTime(t *testing.T) {
	w := newWorld(t, host.Limits{CPUPerMinute: 200 * time.Millisecond})
	spinning := modtest.Loop()
	p := w.ready(t, guest(nil, map[string][]byte{
		abi.OpDriverFingerprint: append(spinning, modtest.I32Const(0)...),
		abi.OpDriverStopTask:    answer(0, 0),
	}).Bytes(), host.Grants{})
	other := w.ready(t, doing(abi.OpDriverStopTask), host.Grants{})

	_, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	exhausted(t, err, "plugin test has used up its processor time, 200ms in a minute; it is called again in ")
	_, err = p.Call(t.Context(), abi.OpDriverStartTask, nil, nil)
	exhausted(t, err, "processor time")
	require.EqualValues(t, 2, p.Stats().OutOfTime)
	require.Empty(t, p.Stats().Faults)
	_, err = p.Call(t.Context(), abi.OpDriverStopTask, nil, nil)
	require.NoError(t, err, "tasks are stopped all the same")
	_, err = other.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err, "another plugin has time")
	require.Eventually(t, func() bool {
		_, err := p.Call(t.Context(), abi.OpDriverStartTask, nil, nil)
		return err == nil
	}, testTimeout, 100*time.Millisecond, "it is called again")
}

// p50 is what half of the calls of an operation take at most.
func p50(t testing.TB, p *host.Plugin, op string, calls int) time.Duration {
	t.Helper()
	var took []time.Duration
	for range calls {
		began := time.Now()
		_, err := p.Call(t.Context(), op, nil, nil)
		require.NoError(t, err)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[calls/2]
}

// spinningWaits has a plugin compute in that many waits until the test ends.
func spinningWaits(t testing.TB, w *world, n int) {
	t.Helper()
	p := w.ready(t, doing(abi.OpDriverWaitTask, modtest.Loop()), host.Grants{})
	ctx, cancel := context.WithCancel(t.Context())
	var waits sync.WaitGroup
	for range n {
		waits.Go(func() { _, _ = p.Call(ctx, abi.OpDriverWaitTask, nil, nil) })
	}
	require.Eventually(t, func() bool { return p.Stats().AtWork == n }, testTimeout, time.Millisecond)
	t.Cleanup(func() { cancel(); waits.Wait() })
}

// computing is a call that takes some ten milliseconds.
func computing() []byte { return modtest.Times(10_000_000, 1) }

// Sixty guests that spin held up all else by half a second. The bounds are generous, since
// the machine may do other work at the same time: without turns they are missed by far.
func TestSpinningWaitsHoldNobodyUp(t *testing.T) {
	w := newWorld(t, host.Limits{CPUPerMinute: time.Hour})
	p := w.ready(t, doing(abi.OpDriverStopTask, computing()), host.Grants{})
	short, long := p50(t, p, abi.OpDriverFingerprint, 101), p50(t, p, abi.OpDriverStopTask, 11)
	spinningWaits(t, w, 60)
	shortBeside, longBeside := p50(t, p, abi.OpDriverFingerprint, 101), p50(t, p, abi.OpDriverStopTask, 11)
	t.Logf("an empty call: %v alone, %v beside 60 spinning waits; one that computes: %v, %v", short, shortBeside, long, longBeside)
	require.Less(t, shortBeside, 10*short+20*time.Millisecond)
	require.Less(t, longBeside, 10*long+50*time.Millisecond)
}

// BenchmarkBesideSpinningWaits is an empty call of a plugin, and one that computes, alone and
// while sixty waits of another plugin spin.
func BenchmarkBesideSpinningWaits(b *testing.B) {
	w := newWorld(b, host.Limits{CPUPerMinute: time.Hour})
	p := w.ready(b, doing(abi.OpDriverStopTask, computing()), host.Grants{})
	for b.Loop() {
	}
	b.ReportMetric(0, "ns/op")
	for _, beside := range []int{0, 60} {
		spinningWaits(b, w, beside)
		b.ReportMetric(float64(p50(b, p, abi.OpDriverFingerprint, 1001).Microseconds()), map[int]string{0: "µs-empty", 60: "µs-empty-beside"}[beside])
		b.ReportMetric(float64(p50(b, p, abi.OpDriverStopTask, 51).Microseconds()), map[int]string{0: "µs-computing", 60: "µs-computing-beside"}[beside])
	}
}

// A line of 8 KiB with 32 fields of 2 KiB was escaped to 438 KB, 100 times a second.
func TestALogLineIsBoundedAfterItIsEscaped(t *testing.T) {
	const text, rate = 1 << 10, 64 << 10
	w := newWorld(t, host.Limits{LogLineBytes: text, LogBytesPerSec: rate, LogsPerSecond: 100_000})
	many := &wasmnodev1.LogFields{}
	for range 32 {
		many.Fields = append(many.Fields, &wasmnodev1.LogField{Key: "key", Value: strings.Repeat("\x01<", 500)})
	}
	fields := mustMarshal(many)
	p := w.ready(t, guest(slices.Concat(bytes.Repeat([]byte("<\x02\""), text), fields), map[string][]byte{
		abi.OpDriverStopTask: modtest.Code(modtest.Times(500, 1, logLine(3, 3*text, len(fields))), answer(0, 0)),
	}).Bytes(), host.Grants{})
	began := time.Now()
	_, err := p.Call(t.Context(), abi.OpDriverStopTask, nil, nil)
	require.NoError(t, err)
	w.logs.mu.Lock()
	defer w.logs.mu.Unlock()
	lines := 0
	for line := range bytes.Lines(w.logs.buf.Bytes()) {
		require.Less(t, len(line), 2*text+400, "with the time, the level and the name")
		lines++
	}
	require.Greater(t, lines, 100)
	written := float64(w.logs.buf.Len())
	require.Less(t, written, rate*(8+time.Since(began).Seconds())*1.2)
}
