package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/modtest"
)

func TestACallAnswers(t *testing.T) {
	p := newWorld(t, host.Limits{}).ready(t, guest(nil, map[string][]byte{abi.OpDriverFingerprint: echo()}).Bytes(), host.Grants{})
	require.Equal(t, "test", p.Name())
	require.Equal(t, "1.0.0", p.Version())
	require.True(t, p.Has(abi.OpDriverStartTask))
	require.False(t, p.Has(abi.OpDriverStopTask))
	for _, n := range []int{0, 1, 1000, 32 << 10} {
		in := bytes.Repeat([]byte{'x'}, n)
		out, err := p.Call(t.Context(), abi.OpDriverFingerprint, in, nil)
		require.NoError(t, err)
		require.Equal(t, string(in), string(out))
	}
	_, err := p.Call(t.Context(), abi.OpDriverStopTask, nil, nil)
	require.Equal(t, abi.Unimplemented, abi.CodeOf(err))
	require.EqualError(t, err, "plugin test does not export driver_stop_task")
}

func TestAnErrorOfThePluginIsAnError(t *testing.T) {
	message, err := (&wasmnodev1.Error{Code: abi.NotFound, Message: "no such\x1b[31m task\n", Recoverable: true}).MarshalVT()
	require.NoError(t, err)
	body := modtest.Code(modtest.I32Const(messageAt), modtest.I32Const(int32(len(message))), modtest.Call(fnOutput), modtest.I32Const(5))
	p := newWorld(t, host.Limits{}).ready(t, guest(message, map[string][]byte{abi.OpDriverFingerprint: body}).Bytes(), host.Grants{})
	_, err = p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.ErrorIs(t, err, abi.ErrTaskNotFound)
	require.True(t, abi.IsRecoverable(err))
	require.EqualError(t, err, `no such\u001b[31m task\u000a`)
}

func TestTheTextOfAnErrorIsCutAtItsEdge(t *testing.T) {
	for length, cut := range map[int]bool{4 << 10: false, 4<<10 + 1: true} {
		text := strings.Repeat("x", length)
		message := mustMarshal(&wasmnodev1.Error{Code: abi.Internal, Message: text})
		body := modtest.Code(modtest.I32Const(messageAt), modtest.I32Const(int32(len(message))), modtest.Call(fnOutput), modtest.I32Const(5))
		p := newWorld(t, host.Limits{}).ready(t, guest(message, map[string][]byte{abi.OpDriverFingerprint: body}).Bytes(), host.Grants{})
		_, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
		require.Error(t, err)
		require.Equal(t, cut, err.Error() != text)
	}
}

// faults are ways of a guest to fail its call, and what the caller is told.
var faults = []struct {
	name string
	body []byte
	kind host.FaultKind
	text string
}{
	{"unreachable", modtest.Unreachable, host.FaultTrap, "plugin test trapped in driver_fingerprint: wasm error: unreachable"},
	{"division", modtest.Code(modtest.I32Const(1), modtest.I32Const(0), []byte{0x6d}), host.FaultTrap, "integer divide by zero"},
	{"outside of memory", modtest.Code(modtest.I32Const(-4), modtest.Load()), host.FaultTrap, "out of bounds memory access"},
	{"recursion", modtest.Code(modtest.Get(0), modtest.Call(fnCount+100)), host.FaultTrap, "stack overflow"},
	{"exit 0", modtest.Code(modtest.I32Const(0), modtest.Call(fnExit), modtest.I32Const(0)), host.FaultExit, "plugin test exited in driver_fingerprint"},
	{"exit 7", modtest.Code(modtest.I32Const(7), modtest.Call(fnExit), modtest.I32Const(0)), host.FaultExit, "exit_code(7)"},
	{"endless loop", modtest.Code(modtest.Loop(), modtest.I32Const(0)), host.FaultTimeout, "plugin test was too slow in driver_fingerprint: ended "},
	{"endless sleep", modtest.Code(modtest.Loop(sleepLong()), modtest.I32Const(0)), host.FaultTimeout, "deadline exceeded"},
	{"no answer", modtest.I32Const(0), host.FaultProtocol, "plugin test broke the contract in driver_fingerprint: returned 0 without handing an answer over"},
	{"two answers", modtest.Code(answer(0, 0), modtest.Drop, answer(0, 0)), host.FaultProtocol, "hands a second answer over"},
	{"an error without a code", modtest.Code(answer(0, 0), modtest.Drop, modtest.I32Const(1)), host.FaultProtocol, "returned 1 with an answer that is not an Error message"},
	{"an error that is garbage", modtest.Code(answer(describeAt, 5), modtest.Drop, modtest.I32Const(1)), host.FaultProtocol, "not an Error message"},
	{"answer outside of memory", modtest.Code(modtest.I32Const(-1), modtest.I32Const(2), modtest.Call(fnOutput), modtest.I32Const(0)), host.FaultProtocol, "hands over 2 bytes at 0xffffffff, which is outside of its memory"},
	{"answer across the end", modtest.Code(modtest.I32Const(1<<16-1), modtest.I32Const(2), modtest.Call(fnOutput), modtest.I32Const(0)), host.FaultProtocol, "hands over 2 bytes at 0xffff"},
	{"answer too long", modtest.Code(modtest.I32Const(0), modtest.I32Const(-1), modtest.Call(fnOutput), modtest.I32Const(0)), host.FaultProtocol, "hands over 4294967295 bytes, the limit is 4194304"},
	{"input outside of memory", modtest.Code(modtest.I32Const(-1), modtest.Call(fnInput), modtest.I32Const(0)), host.FaultProtocol, "asks for 5 bytes at 0xffffffff"},
	{"garbage log fields", modtest.Code(modtest.I32Const(3), modtest.I32Const(0), modtest.I32Const(0), modtest.I32Const(describeAt), modtest.I32Const(5), modtest.Call(fnLog), modtest.I32Const(0)), host.FaultProtocol, "logs fields that are not a LogFields message"},
}

// sleepLong sleeps for an hour through poll_oneoff: a subscription to the monotonic
// clock, put together at inputAt.
func sleepLong() []byte {
	return modtest.Code(
		modtest.I32Const(inputAt+16), modtest.I32Const(1), modtest.Store(), // monotonic
		modtest.I32Const(inputAt+24), modtest.I64Const(3600e9), []byte{0x37, 3, 0},
		modtest.I32Const(inputAt), modtest.I32Const(inputAt+100), modtest.I32Const(1), modtest.I32Const(inputAt+200),
		modtest.Call(fnSleep), modtest.Drop)
}

// faulty is a guest whose fingerprint fails as body says, and whose start_task counts
// the calls of its instance: what a corrupt instance would betray.
func faulty(body []byte) *modtest.Module {
	count := modtest.Code(
		modtest.I32Const(0), modtest.I32Const(0), modtest.Load(), modtest.I32Const(1), modtest.Add, modtest.Store(),
		answer(0, 4))
	m := guest(nil, nil)
	m.Funcs = nil
	g := guest(nil, map[string][]byte{
		abi.OpDriverFingerprint: modtest.Code(modtest.I32Const(0), modtest.I32Const(99), modtest.Store(), body),
		abi.OpDriverStartTask:   count,
	})
	// The recursion needs to know its own number.
	for i, f := range g.Funcs {
		if f.Export == abi.OpDriverFingerprint {
			g.Funcs[i].Body = bytes.ReplaceAll(f.Body, modtest.Call(fnCount+100), modtest.Call(fnCount+uint32(i)))
		}
	}
	return g
}

func TestAFaultIsReportedAndTheInstanceIsDiscarded(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			limit := testTimeout
			if f.kind == host.FaultTimeout {
				limit = 500 * time.Millisecond
			}
			p := newWorld(t, host.Limits{CallTimeout: limit}).ready(t, faulty(f.body).Bytes(), host.Grants{})
			patient, cancel := context.WithTimeout(t.Context(), testTimeout) // takes the place of the limit
			defer cancel()
			for range 2 {
				if f.kind == host.FaultTimeout {
					// The instance is there before the time begins, which is the guest's alone.
					_, err := p.Call(patient, abi.OpDriverStartTask, nil, nil)
					require.NoError(t, err)
				}
				_, err := p.Call(t.Context(), abi.OpDriverFingerprint, []byte("hello"), nil)
				var fault *host.FaultError
				require.ErrorAs(t, err, &fault)
				require.Equal(t, f.kind, fault.Kind)
				require.Equal(t, "test", fault.Plugin)
				require.Equal(t, abi.OpDriverFingerprint, fault.Op)
				require.ErrorContains(t, err, f.text)
				require.NotContains(t, err.Error(), "\n")
				out, err := p.Call(patient, abi.OpDriverStartTask, nil, nil)
				require.NoError(t, err)
				require.Equal(t, []byte{1, 0, 0, 0}, out, "the instance is a fresh one")
				// So that the next fault finds a fresh one, too.
				_, _ = p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
			}
			s := p.Stats()
			require.Equal(t, map[host.FaultKind]uint64{f.kind: 4}, s.Faults)
			require.Zero(t, s.AtWork)
			require.LessOrEqual(t, s.AtRest, 1)
		})
	}
}

func TestAFaultIsShortAndItsDetailsAreThere(t *testing.T) {
	message := []byte("about to fail")
	body := modtest.Code(
		modtest.I32Const(3), modtest.I32Const(messageAt), modtest.I32Const(int32(len(message))), modtest.I32Const(0), modtest.I32Const(0), modtest.Call(fnLog),
		modtest.Unreachable)
	p := newWorld(t, host.Limits{}).ready(t, guest(message, map[string][]byte{abi.OpDriverFingerprint: body}).Bytes(), host.Grants{})
	_, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.Equal(t, "plugin test trapped in driver_fingerprint: wasm error: unreachable", fmt.Sprintf("%v", err))
	require.Contains(t, fmt.Sprintf("%+v", err), "\nin: $")
	require.Contains(t, fmt.Sprintf("%+v", err), "\nlog: about to fail")
}

func TestInputAndOutputHaveLimits(t *testing.T) {
	w := newWorld(t, host.Limits{InputBytes: 20, OutputBytes: 30})
	p := w.load(t, guest(nil, map[string][]byte{abi.OpDriverFingerprint: echo(), abi.OpDriverStartTask: answer(0, 30), abi.OpDriverStopTask: answer(0, 31)}).Bytes())
	_, err := p.Call(t.Context(), abi.OpDriverFingerprint, make([]byte, 20), nil)
	require.NoError(t, err)
	_, err = p.Call(t.Context(), abi.OpDriverFingerprint, make([]byte, 21), nil)
	require.EqualError(t, err, "plugin test: driver_fingerprint: the input has 21 bytes, the limit is 20")
	require.Equal(t, abi.ResourceExhausted, abi.CodeOf(err))
	_, err = p.Call(t.Context(), abi.OpDriverStartTask, nil, nil)
	require.NoError(t, err)
	_, err = p.Call(t.Context(), abi.OpDriverStopTask, nil, nil)
	require.ErrorContains(t, err, "hands over 31 bytes, the limit is 30")
}

func TestACancelledCallReturnsTheContextsError(t *testing.T) {
	p := newWorld(t, host.Limits{}).ready(t, faulty(modtest.Code(modtest.Loop(sleepLong()), modtest.I32Const(0))).Bytes(), host.Grants{})
	ctx, cancel := context.WithCancelCause(t.Context())
	wanted := errors.New("nobody waits any more")
	time.AfterFunc(10*time.Millisecond, func() { cancel(wanted) })
	_, err := p.Call(ctx, abi.OpDriverFingerprint, nil, nil)
	require.ErrorIs(t, err, wanted)
	var fault *host.FaultError
	require.False(t, errors.As(err, &fault), "being cancelled is not a fault of the plugin")
}

func TestAWaitHasNoDeadlineOfItsOwn(t *testing.T) {
	g := guest(nil, map[string][]byte{abi.OpDriverWaitTask: modtest.Code(modtest.Loop(sleepLong()), modtest.I32Const(0))})
	p := newWorld(t, host.Limits{CallTimeout: time.Millisecond, Waiters: 1}).load(t, g.Bytes())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := p.Call(ctx, abi.OpDriverWaitTask, nil, nil)
		done <- err
	}()
	require.Eventually(t, func() bool { return p.Stats().AtWork == 1 }, testTimeout, time.Millisecond)
	select {
	case err := <-done:
		t.Fatal(err)
	case <-time.After(50 * time.Millisecond):
	}
	// A second one waits for its turn, other calls do not.
	short, cancelShort := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancelShort()
	_, err := p.Call(short, abi.OpDriverWaitTask, nil, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "waiting for one of 1 instances")
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestClosingEndsCallsAndWaitsForThem(t *testing.T) {
	w := newWorld(t, host.Limits{})
	p, err := w.Load(t.Context(), host.NewSource(guest(nil, map[string][]byte{abi.OpDriverWaitTask: modtest.Code(modtest.Loop(), modtest.I32Const(0))}).Bytes()))
	require.NoError(t, err)
	require.NoError(t, p.Configure(t.Context(), host.Grants{}, nil))
	done := make(chan error, 3)
	for range cap(done) {
		go func() {
			_, err := p.Call(context.Background(), abi.OpDriverWaitTask, nil, nil)
			done <- err
		}()
	}
	_, err = p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	p.Close()
	for range cap(done) {
		require.Equal(t, abi.Unavailable, abi.CodeOf(<-done))
	}
	_, err = p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.Equal(t, abi.Unavailable, abi.CodeOf(err))
	p.Close() // twice is not an error
}

func TestConcurrentCallsUseInstancesOfTheirOwn(t *testing.T) {
	w := newWorld(t, host.Limits{Instances: 4, IdleInstances: 2})
	p := w.ready(t, guest(nil, map[string][]byte{
		abi.OpDriverFingerprint: echo(),
		abi.OpDriverStartTask:   modtest.Unreachable,
	}).Bytes(), host.Grants{})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 50 {
				if j%10 == 9 {
					_, err := p.Call(context.Background(), abi.OpDriverStartTask, nil, nil)
					var fault *host.FaultError
					if !errors.As(err, &fault) || fault.Kind != host.FaultTrap {
						t.Errorf("got %v", err)
					}
				}
				if i == 0 && j%20 == 0 {
					if err := p.Configure(context.Background(), host.Grants{}, nil); err != nil {
						t.Error(err)
					}
				}
				in := fmt.Sprintf("%d-%d", i, j)
				out, err := p.Call(context.Background(), abi.OpDriverFingerprint, []byte(in), nil)
				if err != nil || string(out) != in {
					t.Errorf("%s: got %s, error %v", in, out, err)
				}
			}
		})
	}
	wg.Wait()
}

// TestASleepingGuestUsesNoGuestTime is on a clock that stands still while anything works.
func TestASleepingGuestUsesNoGuestTime(t *testing.T) {
	nap := modtest.Code(
		modtest.I32Const(inputAt+16), modtest.I32Const(1), modtest.Store(),
		modtest.I32Const(inputAt+24), modtest.I64Const(100e6), []byte{0x37, 3, 0},
		modtest.I32Const(inputAt), modtest.I32Const(inputAt+100), modtest.I32Const(1), modtest.I32Const(inputAt+200),
		modtest.Call(fnSleep), modtest.Drop, answer(0, 0))
	synctest.Test(t, func(t *testing.T) {
		p := newWorld(t, host.Limits{}).ready(t, guest(nil, map[string][]byte{abi.OpDriverFingerprint: nap}).Bytes(), host.Grants{})
		before, begun := p.Stats(), time.Now()
		_, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
		require.NoError(t, err)
		require.Equal(t, 100*time.Millisecond, time.Since(begun))
		require.Equal(t, before.Calls+1, p.Stats().Calls)
		require.Equal(t, before.GuestTime, p.Stats().GuestTime)
	})
}

func TestTheTimeInAGuestIsCounted(t *testing.T) {
	spin := modtest.Code(modtest.Times(1<<20, 1), answer(0, 0))
	p := newWorld(t, host.Limits{}).ready(t, guest(nil, map[string][]byte{abi.OpDriverStartTask: spin}).Bytes(), host.Grants{})
	before := p.Stats()
	_, err := p.Call(t.Context(), abi.OpDriverStartTask, nil, nil)
	require.NoError(t, err)
	require.Greater(t, p.Stats().GuestTime-before.GuestTime, 100*time.Microsecond)
}

func TestARefusedConfigurationChangesNothing(t *testing.T) {
	// configure fails when its input has more than 20 bytes.
	configure := modtest.Code(
		modtest.Get(0), modtest.I32Const(20), []byte{0x4a, 0x04, 0x40}, // i32.gt_s, if
		modtest.I32Const(messageAt), modtest.I32Const(9), modtest.Call(fnOutput), modtest.I32Const(3), modtest.Return,
		[]byte{0x0b}, answer(0, 0))
	message, err := (&wasmnodev1.Error{Code: abi.InvalidArgument, Message: "too l"}).MarshalVT()
	require.NoError(t, err)
	require.Len(t, message, 9)
	p := newWorld(t, host.Limits{}).load(t, guest(message, map[string][]byte{abi.OpDriverConfigure: configure, abi.OpDriverFingerprint: echo()}).Bytes())
	require.Empty(t, p.Granted())
	require.EqualError(t, p.Configure(t.Context(), host.Grants{}, []byte(strings.Repeat("x", 30))), "too l")
	require.Empty(t, p.Granted())
	require.NoError(t, p.Configure(t.Context(), host.Grants{}, []byte("{}")))
	require.NotEmpty(t, p.Granted())
	require.EqualError(t, p.Configure(t.Context(), host.Grants{}, []byte(strings.Repeat("x", 30))), "too l")
	_, err = p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
}
