package inflight_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/inflight"
	"github.com/wasmnode/wasmnode/internal/leaktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.WithTimeout(m)) }

func TestAClosedGateRefusesEntry(t *testing.T) {
	var g inflight.Group
	require.True(t, g.Enter())
	g.Leave()
	g.Close()
	require.False(t, g.Enter())
	g.Close()
}

func TestClosingAGateWaitsForItsHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g inflight.Group
		require.True(t, g.Enter())
		closed := false
		go func() {
			g.Close()
			closed = true
		}()
		synctest.Wait()
		require.False(t, closed)
		require.False(t, g.Enter(), "while it is being closed")
		g.Leave()
		synctest.Wait()
		require.True(t, closed)
	})
}

func TestAGateIsClosedWhileManyComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g inflight.Group
		for range 8 {
			go func() {
				for g.Enter() {
					g.Leave()
				}
			}()
		}
		g.Close()
		require.False(t, g.Enter())
	})
}
