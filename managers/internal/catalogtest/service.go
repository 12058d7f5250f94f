package catalogtest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/catalog"
)

// Service is a fake plugin and the manager that is to take it into service, in a synctest
// bubble. The functions of this file are what every manager is tested with.
type Service struct {
	Plugin      *Plugin
	Fingerprint string // the operation
	Take        func() // into service
	Usable      func() bool
	// Refused answers a fingerprint with what the manager refuses.
	Refused func(context.Context, host.Call) error
}

func notYet(context.Context, host.Call) error { return abi.NewError(abi.Unavailable, "not yet") }

// AFirstFingerprintThatFailsIsTriedAgain is defect D2.
func AFirstFingerprintThatFailsIsTriedAgain(t *testing.T, s Service) {
	well := s.Plugin.Ops[s.Fingerprint]
	s.Plugin.On(s.Fingerprint, notYet)
	s.Take()
	require.False(t, s.Usable())
	time.Sleep(8 * time.Second)
	require.Greater(t, s.Plugin.Count(s.Fingerprint), 1)
	s.Plugin.On(s.Fingerprint, well)
	time.Sleep(catalog.MaxRetryPause)
	require.True(t, s.Usable())
}

// ShutdownAfterAFirstFingerprintThatFailsIsClean is defect D2 too.
func ShutdownAfterAFirstFingerprintThatFailsIsClean(_ *testing.T, s Service) {
	s.Plugin.On(s.Fingerprint, notYet)
	s.Take()
}

// PollingGoesOnAfterAnError is defect D6.
func PollingGoesOnAfterAnError(t *testing.T, s Service) {
	well := s.Plugin.Ops[s.Fingerprint]
	var calls atomic.Int32
	s.Plugin.On(s.Fingerprint, func(ctx context.Context, c host.Call) error {
		if calls.Add(1) == 2 {
			return abi.NewError(abi.Internal, "once")
		}
		return well(ctx, c)
	})
	s.Take()
	time.Sleep(10 * catalog.PollInterval)
	require.GreaterOrEqual(t, int(calls.Load()), 10)
	require.True(t, s.Usable())
}

// NoFailureIsFinal is defect D11: not of the first call, not a trap, not an answer that is
// refused; and each is seen.
var NoFailureIsFinal = map[string]func(t *testing.T, s Service){
	"error": func(t *testing.T, s Service) {
		noFailureIsFinal(t, s, func(context.Context, host.Call) error { return abi.NewError(abi.Internal, "broken") })
	},
	"trap":    func(t *testing.T, s Service) { noFailureIsFinal(t, s, Fault(s.Fingerprint)) },
	"refused": func(t *testing.T, s Service) { noFailureIsFinal(t, s, s.Refused) },
}

func noFailureIsFinal(t *testing.T, s Service, fails func(context.Context, host.Call) error) {
	well := s.Plugin.Ops[s.Fingerprint]
	s.Plugin.On(s.Fingerprint, fails)
	s.Take()
	require.False(t, s.Usable())
	s.Plugin.On(s.Fingerprint, well)
	time.Sleep(catalog.MaxRetryPause)
	require.True(t, s.Usable())
	s.Plugin.On(s.Fingerprint, fails)
	for end := time.Now().Add(2 * catalog.PollInterval); s.Usable(); time.Sleep(50 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "the failure is seen")
	}
	s.Plugin.On(s.Fingerprint, well)
	time.Sleep(catalog.MaxRetryPause)
	require.True(t, s.Usable())
}

// APluginThatKeepsBreakingIsNotRestartedInACircle is defect D12.
func APluginThatKeepsBreakingIsNotRestartedInACircle(t *testing.T, s Service) {
	s.Plugin.On(s.Fingerprint, Fault(s.Fingerprint))
	s.Take()
	time.Sleep(time.Hour)
	require.Equal(t, 1+catalog.RestartBudget, s.Plugin.Count(s.Fingerprint))
	require.False(t, s.Usable())
}
