package meter

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero/sys"
)

func TestTheQuantumIsFittedToHowFastFuelBurns(t *testing.T) {
	now := time.Now()
	burn := func(f *Fuel, gap time.Duration, n int) uint32 {
		for range n {
			now = now.Add(gap)
			f.next(t.Context(), now)
		}
		return f.quantum
	}
	f := &Fuel{since: now}
	require.Equal(t, uint32(quantumStart), burn(f, 0, 1))
	require.Equal(t, uint32(2*quantumStart), burn(f, quantumTime/2-1, 1))
	require.Equal(t, uint32(2*quantumStart), burn(f, quantumTime/2, 5))
	require.Equal(t, uint32(2*quantumStart), burn(f, quantumTime*2, 5))
	require.Equal(t, uint32(quantumStart), burn(f, quantumTime*2+1, 1))
	require.Equal(t, uint32(quantumMin), burn(f, time.Second, 100))
	require.Equal(t, uint32(quantumMax), burn(f, 0, 100))
}

func TestUsageLeavesOutWhatTheHostDoes(t *testing.T) {
	var f Fuel
	ctx := f.Enter(context.Background())
	start := f.since
	f.next(t.Context(), start.Add(3*time.Millisecond))
	f.pause(start.Add(5 * time.Millisecond)) // what Pause does
	f.since = start.Add(time.Hour)           // what its result does
	f.next(t.Context(), start.Add(time.Hour+time.Millisecond))
	require.Equal(t, Usage{Time: 6 * time.Millisecond, Yields: 2, LongestGap: 3 * time.Millisecond}, f.call)

	resume := Pause(ctx)
	require.True(t, f.since.IsZero())
	Pause(ctx)() // within another one: nothing
	require.True(t, f.since.IsZero())
	resume()
	require.False(t, f.since.IsZero())
	Pause(context.Background())()
	used := f.Leave()
	require.Equal(t, uint64(2), used.Yields)
	require.Equal(t, used, f.Total())
	f.Enter(context.Background())
	require.Zero(t, f.Leave().Yields)
	require.Equal(t, uint64(2), f.Total().Yields)
}

func TestYieldStopsAGuestWhoseContextHasEnded(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	for _, c := range []struct {
		ctx  context.Context
		code uint32
		is   error
	}{{cancelled, sys.ExitCodeContextCanceled, context.Canceled}, {late, sys.ExitCodeDeadlineExceeded, context.DeadlineExceeded}} {
		require.PanicsWithError(t, sys.NewExitError(c.code).Error(), func() { yield(c.ctx, make([]uint64, 1)) })
		require.ErrorIs(t, ExitError(c.ctx.Err()), c.is)
	}
	stack := []uint64{0}
	yield(context.Background(), stack)
	require.Equal(t, uint64(quantumStart), stack[0])
}

func BenchmarkYield(b *testing.B) {
	var f Fuel
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	ctx = f.Enter(ctx)
	stack := make([]uint64, 1)
	for b.Loop() {
		yield(ctx, stack)
	}
}
