package managers

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// bothKinds runs a test with a driver and with a device plugin, each in a world of its
// own. Op is its fingerprint, usable reports whether the node can give it work.
func bothKinds(t *testing.T, test func(t *testing.T, p *fakePlugin, op string, take func(), usable func() bool)) {
	t.Run("driver", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, p := newWorld(t, nil), newFakePlugin()
			test(t, p, abi.OpDriverFingerprint, func() { w.mustTake(p, nil) }, func() bool {
				d, err := w.manager.Dispense("fake")
				if err == nil {
					d.Release()
				}
				return err == nil && d.unit.info().Healthy
			})
		})
	})
	t.Run("device", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, p := newDeviceWorld(t), newFakeDevice("fake")
			test(t, p, abi.OpDeviceFingerprint, func() { w.mustTake(p, nil) }, func() bool {
				_, err := w.reserve("a")
				return err == nil
			})
		})
	})
}

// D2: the first error of a fingerprint must not be the last call, and shutting down
// after it must not panic.
func TestD2_AFirstFingerprintThatFailsIsTriedAgain(t *testing.T) {
	bothKinds(t, func(t *testing.T, p *fakePlugin, op string, take func(), usable func() bool) {
		well := p.ops[op]
		p.on(op, func(context.Context, Call) error { return abi.NewError(abi.Unavailable, "not yet") })
		take()
		require.False(t, usable())
		time.Sleep(8 * time.Second)
		require.Greater(t, p.count(op), 1)
		p.on(op, well)
		time.Sleep(maxRetryPause)
		require.True(t, usable())
	})
}

func TestD2_ShutdownAfterAFirstFingerprintThatFailsIsClean(t *testing.T) {
	bothKinds(t, func(_ *testing.T, p *fakePlugin, op string, take func(), _ func() bool) {
		p.on(op, func(context.Context, Call) error { return abi.NewError(abi.Unavailable, "not yet") })
		take()
	})
}

// D6: polling must go on after an error.
func TestD6_PollingGoesOnAfterAnError(t *testing.T) {
	bothKinds(t, func(t *testing.T, p *fakePlugin, op string, take func(), usable func() bool) {
		well := p.ops[op]
		var calls atomic.Int32
		p.on(op, func(ctx context.Context, c Call) error {
			if calls.Add(1) == 2 {
				return abi.NewError(abi.Internal, "once")
			}
			return well(ctx, c)
		})
		take()
		time.Sleep(10 * pollInterval)
		require.GreaterOrEqual(t, int(calls.Load()), 10)
		require.True(t, usable())
	})
}

// D11: no failure is final: not of the first call, not a trap, not an answer that is
// refused; and each is seen.
func TestD11_NoFailureIsFinal(t *testing.T) {
	for name, spoil := range map[string]func(op string) func(context.Context, Call) error{
		"error": func(string) func(context.Context, Call) error {
			return func(context.Context, Call) error { return abi.NewError(abi.Internal, "broken") }
		},
		"trap": fault,
		"refused": func(op string) func(context.Context, Call) error {
			if op == abi.OpDriverFingerprint {
				return func(context.Context, Call) error { return nil } // no health
			}
			return answersDevices(gpu, "a", "a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bothKinds(t, func(t *testing.T, p *fakePlugin, op string, take func(), usable func() bool) {
				well := p.ops[op]
				p.on(op, spoil(op))
				take()
				require.False(t, usable())
				p.on(op, well)
				time.Sleep(maxRetryPause)
				require.True(t, usable())
				p.on(op, spoil(op))
				for end := time.Now().Add(2 * pollInterval); usable(); time.Sleep(50 * time.Millisecond) {
					require.True(t, time.Now().Before(end), "the failure is seen")
				}
				p.on(op, well)
				time.Sleep(maxRetryPause)
				require.True(t, usable())
			})
		})
	}
}

func TestD11_StatsAreAskedForForEver(t *testing.T) {
	for name, spoil := range map[string]func(context.Context, Call) error{
		"error":   func(context.Context, Call) error { return abi.NewError(abi.Internal, "broken") },
		"trap":    fault(abi.OpDeviceStats),
		"refused": answersStats(gpu, 1, "a", "b"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newDeviceWorld(t)
				p := newFakeDevice("acme")
				well := p.ops[abi.OpDeviceStats]
				if name == "refused" {
					answer := spoil
					spoil = func(ctx context.Context, c Call) error {
						_ = answer(ctx, c)
						c.Answer.(*wasmnodev1.DeviceStatsResponse).Groups[0].Devices["a"].Summary.Unit = "parsec"
						return nil
					}
				}
				p.on(abi.OpDeviceStats, spoil)
				w.mustTake(p, nil)
				time.Sleep(12 * time.Hour)
				asked := p.count(abi.OpDeviceStats)
				require.InDelta(t, 32, asked, 3, "less and less often, to twice an hour")
				require.Empty(t, w.manager.AllStats())
				_, err := w.reserve("a")
				require.NoError(t, err, "a device is not worse for want of figures")
				p.on(abi.OpDeviceStats, well)
				time.Sleep(maxStatsPause)
				require.Len(t, w.manager.AllStats(), 1)
			})
		})
	}
}

// D12: a plugin that breaks at once each time must not be restarted in a circle.
func TestD12_APluginThatKeepsBreakingIsNotRestartedInACircle(t *testing.T) {
	bothKinds(t, func(t *testing.T, p *fakePlugin, op string, take func(), usable func() bool) {
		p.on(op, fault(op))
		take()
		time.Sleep(time.Hour)
		require.Equal(t, 1+RestartBudget, p.count(op))
		require.False(t, usable())
	})
}

// D17: what was handed out is the caller's alone.
func TestD17_WhatIsReadOfStatsSharesNothing(t *testing.T) {
	w := newDeviceWorld(t)
	p := newFakeDevice("acme")
	p.on(abi.OpDeviceStats, func(ctx context.Context, c Call) error {
		c.Answer.(*wasmnodev1.DeviceStatsResponse).NextPollMs = 1
		return answersStats(gpu, 7, "a", "b")(ctx, c)
	})
	w.mustTake(p, nil)
	require.Eventually(t, func() bool { return len(w.manager.AllStats()) == 1 }, patient, time.Millisecond)
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for range 200 {
				all := w.manager.AllStats()
				some, err := w.manager.DeviceStats(devices("a"))
				require.NoError(t, err)
				for _, s := range []*int64{all[0].Devices["a"].Summary.Int, some.Devices["a"].Summary.Int} {
					require.Equal(t, int64(7), *s)
					*s = 0
				}
				delete(all[0].Devices, "b")
				all[0] = nil
			}
		})
	}
	readers.Wait()
}

// D21: a plugin must be told for whom a reservation is, and when it ends.
func TestD21_AReservationTellsForWhomAndHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDeviceWorld(t)
		p := newFakeDevice("acme")
		reserve := p.ops[abi.OpDeviceReserve]
		var reserved *wasmnodev1.DeviceReserveRequest
		var released *wasmnodev1.DeviceReleaseRequest
		p.on(abi.OpDeviceReserve, func(ctx context.Context, c Call) error {
			reserved = c.Request.(*wasmnodev1.DeviceReserveRequest)
			return reserve(ctx, c)
		})
		p.on(abi.OpDeviceRelease, func(_ context.Context, c Call) error {
			released = c.Request.(*wasmnodev1.DeviceReleaseRequest)
			return nil
		})
		w.mustTake(p, nil)
		_, err := w.reserve("a", "b")
		require.NoError(t, err)
		require.NoError(t, w.manager.Release(t.Context(), devices("a", "b"), consumer))
		want := &wasmnodev1.DeviceUser{AllocId: "alloc", TaskName: "web", JobId: "job", TaskGroupName: "group", Namespace: "default"}
		require.True(t, reserved.User.EqualVT(want))
		require.True(t, released.User.EqualVT(want))
		require.Equal(t, []string{"a", "b"}, reserved.DeviceIds)
		require.Equal(t, reserved.DeviceIds, released.DeviceIds)
		require.True(t, reserved.Group.EqualVT(released.Group))
	})
}
