package drivers

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/internal/catalogtest"
)

// inService runs a test with a driver that is not in service yet.
func inService(t *testing.T, test func(t *testing.T, s catalogtest.Service)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, p := newWorld(t, nil), catalogtest.NewPlugin()
		test(t, catalogtest.Service{
			Plugin: p, Fingerprint: abi.OpDriverFingerprint,
			Take: func() { w.mustLoad(p, nil) },
			Usable: func() bool {
				d, err := w.manager.Dispense("fake")
				if err == nil {
					d.Release()
				}
				return err == nil && d.plugin.info().Healthy
			},
			Refused: func(context.Context, host.Call) error { return nil }, // no health
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
