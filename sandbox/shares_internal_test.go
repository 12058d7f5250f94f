package sandbox

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMemoryIsWithinEachBudget(t *testing.T) {
	all := NewBudget(Quota{Memory: 100}, nil)
	first, second, third := NewBudget(Quota{Memory: 80}, all), NewBudget(Quota{Memory: 80, Least: 10}, all), NewBudget(Quota{Least: 10}, all)
	require.False(t, first.TakeMemory(81))
	require.True(t, first.TakeMemory(80))
	require.False(t, first.TakeMemory(1))
	require.True(t, second.TakeMemory(20))
	require.False(t, second.TakeMemory(1), "all is taken, and it has its least")
	require.True(t, third.TakeMemory(10), "its least, whatever others have")
	require.False(t, third.TakeMemory(1))
	require.Equal(t, []uint64{80, 20, 10, 110}, []uint64{first.Memory(), second.Memory(), third.Memory(), all.Memory()})
	first.GiveMemory(80)
	require.True(t, second.TakeMemory(60))
	second.GiveMemory(80)
	third.GiveMemory(10)
	require.Zero(t, first.Memory()+second.Memory()+third.Memory()+all.Memory())
	var none *Budget
	require.True(t, none.TakeMemory(1<<40))
	none.GiveMemory(1 << 40)
}

func TestTimeIsSavedUpAndSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(Quota{TimePerMinute: 30 * time.Second}, nil)
		require.True(t, b.spend(30*time.Second), "all at once")
		require.Zero(t, b.Wait())
		require.False(t, b.spend(time.Second))
		require.Equal(t, 4*time.Second, b.Wait(), "a second that was too much, and a thirtieth of the minute's")
		time.Sleep(3 * time.Second)
		require.Equal(t, time.Second, b.Wait())
		require.False(t, b.spend(0))
		time.Sleep(time.Second)
		require.Zero(t, b.Wait())
		require.True(t, b.spend(time.Second))
		time.Sleep(time.Hour)
		require.True(t, b.spend(30*time.Second))
		require.False(t, b.spend(1), "no more than a minute's is saved up")
		require.True(t, NewBudget(Quota{}, nil).spend(time.Hour), "not bounded")
	})
}

func TestATurnIsForWhoUsedLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1)
		busy, idle := &runner{}, &runner{}
		require.True(t, turns.take(t.Context(), busy))
		require.False(t, turns.wanted())
		var order []string
		take := func(ctx context.Context, r *runner, name string) {
			go func() {
				if turns.take(ctx, r) {
					order = append(order, name)
				}
			}()
			synctest.Wait()
		}
		take(t.Context(), busy, "busy")
		take(t.Context(), busy, "busy again")
		take(t.Context(), idle, "idle")
		ctx, cancel := context.WithCancel(t.Context())
		take(ctx, idle, "gone")
		cancel()
		synctest.Wait()
		require.Empty(t, order)
		require.True(t, turns.wanted())
		turns.give(busy, time.Second)
		synctest.Wait()
		require.Equal(t, []string{"idle"}, order)
		turns.give(idle, 2*time.Second) // one is left in the queue, and who waited longest is first
		synctest.Wait()
		turns.give(busy, 0)
		synctest.Wait()
		require.Equal(t, []string{"idle", "busy", "busy again"}, order)
		require.False(t, turns.wanted())
		turns.give(busy, 0)
		require.Equal(t, 1, turns.free)
		require.InDelta(t, 2, idle.use(0, time.Now()), 1e-9)
		time.Sleep(halfLife)
		require.InDelta(t, 1.5, idle.use(time.Second/2, time.Now()), 1e-9, "half of it is forgotten")

		require.True(t, turns.take(t.Context(), idle))
		come := make(chan struct{}) // it has come when its guest leaves
		turns.leave(busy, come)
		require.Equal(t, 1, turns.free)
	})
}

// Who has the next turn among guests that always want it: each gets time by its weight.
func TestTurnsAreByWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1)
		ctx, end := context.WithTimeout(t.Context(), 10*time.Second)
		defer end()
		var running sync.WaitGroup
		shares := []*Share{NewShare(0), NewShare(300), NewShare(600)}
		for _, s := range shares {
			g := &governor{guest: &Guest{Share: s}, turns: turns, runner: &s.runner, ran: shortRun}
			running.Go(func() {
				for g.Resume(ctx); ctx.Err() == nil; {
					time.Sleep(turnTime / 4)
					_ = g.Ran(ctx, turnTime/4)
				}
			})
		}
		running.Wait()
		require.InDelta(t, 1, shares[0].Used().Seconds(), 0.01)
		require.InDelta(t, 3, shares[1].Used().Seconds(), 0.01)
		require.InDelta(t, 6, shares[2].Used().Seconds(), 0.01)
	})
}

func TestAGuestTakesTurnsWhenItRunsForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		turns := newTurns(1)
		g := &governor{guest: &Guest{Budget: NewBudget(Quota{TimePerMinute: time.Second}, nil)}, turns: turns, runner: &runner{}}
		require.NoError(t, g.Ran(ctx, shortRun-1))
		require.Equal(t, 1, turns.free, "a short call needs none")
		require.NoError(t, g.Ran(ctx, 1))
		require.Zero(t, turns.free)
		require.NoError(t, g.Ran(ctx, time.Second/4))
		require.Zero(t, turns.free, "nobody waits for it")
		g.Pause()
		require.Equal(t, 1, turns.free)
		g.Pause()
		require.Equal(t, 1, turns.free, "it gave back one")
		g.Resume(ctx)
		g.Resume(ctx)
		require.Zero(t, turns.free)

		had := make(chan bool)
		other := &runner{}
		go func() {
			turns.take(ctx, other)
			time.Sleep(time.Second)
			turns.give(other, time.Second)
			had <- true
		}()
		synctest.Wait()
		require.NoError(t, g.Ran(ctx, turnTime-1))
		require.True(t, turns.wanted(), "its turn is not over")
		began := time.Now()
		require.NoError(t, g.Ran(ctx, 1))
		require.Equal(t, time.Second, time.Since(began), "the other's turn")
		<-had
		g.Left(0)
		require.Equal(t, 1, turns.free)
		require.NoError(t, g.Ran(ctx, shortRun-1))
		require.Equal(t, 1, turns.free, "another call is short again")
		require.ErrorIs(t, g.Ran(ctx, time.Hour), ErrTimeBudget)
		g.guest.Exempt = true
		require.NoError(t, g.Ran(ctx, 0))
		ended, cancel := context.WithCancel(ctx)
		cancel()
		require.ErrorIs(t, g.Ran(ended, time.Second), context.Canceled)
	})
}
