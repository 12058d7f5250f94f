package devices

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/internal/catalogtest"
)

// inService runs a test with a device plugin that is not in service yet.
func inService(t *testing.T, test func(t *testing.T, s catalogtest.Service)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, p := newDeviceWorld(t), newFakeDevice("fake")
		test(t, catalogtest.Service{
			Plugin: p, Fingerprint: abi.OpDeviceFingerprint,
			Take: func() { w.mustTake(p, nil) },
			Usable: func() bool {
				_, err := w.reserve("a")
				return err == nil
			},
			Refused: answersDevices(gpu, "a", "a"),
		})
	})
}

func TestD2_AFirstFingerprintThatFailsIsTriedAgain(t *testing.T) {
	inService(t, catalogtest.AFirstFingerprintThatFailsIsTriedAgain)
}

func TestD2_ShutdownAfterAFirstFingerprintThatFailsIsClean(t *testing.T) {
	inService(t, catalogtest.ShutdownAfterAFirstFingerprintThatFailsIsClean)
}

func TestD6_PollingGoesOnAfterAnError(t *testing.T) {
	inService(t, catalogtest.PollingGoesOnAfterAnError)
}

func TestD11_NoFailureIsFinal(t *testing.T) {
	for name, test := range catalogtest.NoFailureIsFinal {
		t.Run(name, func(t *testing.T) { inService(t, test) })
	}
}

func TestD12_APluginThatKeepsBreakingIsNotRestartedInACircle(t *testing.T) {
	inService(t, catalogtest.APluginThatKeepsBreakingIsNotRestartedInACircle)
}

func TestD11_StatsAreAskedForForEver(t *testing.T) {
	for name, spoil := range map[string]func(context.Context, host.Call) error{
		"error":   func(context.Context, host.Call) error { return abi.NewError(abi.Internal, "broken") },
		"trap":    catalogtest.Fault(abi.OpDeviceStats),
		"refused": answersStats(gpu, 1, "a", "b"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newDeviceWorld(t)
				p := newFakeDevice("acme")
				well := p.Ops[abi.OpDeviceStats]
				if name == "refused" {
					answer := spoil
					spoil = func(ctx context.Context, c host.Call) error {
						_ = answer(ctx, c)
						c.Answer.(*wasmnodev1.DeviceStatsResponse).Groups[0].Devices["a"].Summary.Unit = "parsec"
						return nil
					}
				}
				p.On(abi.OpDeviceStats, spoil)
				w.mustTake(p, nil)
				time.Sleep(12 * time.Hour)
				asked := p.Count(abi.OpDeviceStats)
				require.InDelta(t, 32, asked, 3, "less and less often, to twice an hour")
				require.Empty(t, w.manager.AllStats())
				_, err := w.reserve("a")
				require.NoError(t, err, "a device is not worse for want of figures")
				p.On(abi.OpDeviceStats, well)
				time.Sleep(maxStatsPause)
				require.Len(t, w.manager.AllStats(), 1)
			})
		})
	}
}

// D17: what was handed out is the caller's alone.
func TestD17_WhatIsReadOfStatsSharesNothing(t *testing.T) {
	w := newDeviceWorld(t)
	p := newFakeDevice("acme")
	p.On(abi.OpDeviceStats, func(ctx context.Context, c host.Call) error {
		c.Answer.(*wasmnodev1.DeviceStatsResponse).NextPollMs = 1
		return answersStats(gpu, 7, "a", "b")(ctx, c)
	})
	w.mustTake(p, nil)
	require.Eventually(t, func() bool { return len(w.manager.AllStats()) == 1 }, catalogtest.TestTimeout, time.Millisecond)
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
func TestD21_AReservationNamesItsTaskAndHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDeviceWorld(t)
		p := newFakeDevice("acme")
		reserve := p.Ops[abi.OpDeviceReserve]
		var reserved *wasmnodev1.DeviceReserveRequest
		var released *wasmnodev1.DeviceReleaseRequest
		p.On(abi.OpDeviceReserve, func(ctx context.Context, c host.Call) error {
			reserved = c.Request.(*wasmnodev1.DeviceReserveRequest)
			return reserve(ctx, c)
		})
		p.On(abi.OpDeviceRelease, func(_ context.Context, c host.Call) error {
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
