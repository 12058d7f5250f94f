package slots_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/slots"
)

func TestThoseThatAreWantedComeFirst(t *testing.T) {
	s := slots.New(1)
	wanted := map[string]*atomic.Bool{}
	join := func(name string) *slots.Ticket {
		wanted[name] = &atomic.Bool{}
		return s.Join(wanted[name].Load)
	}
	tickets := map[string]*slots.Ticket{}
	for _, name := range []string{"running", "a", "b", "c", "d"} {
		tickets[name] = join(name)
	}
	wanted["c"].Store(true)
	running := "running"
	for _, next := range []string{"c", "a", "d", "b"} {
		require.NoError(t, tickets[running].Wait(t.Context()))
		if next == "d" {
			wanted["d"].Store(true) // since it has waited
		}
		tickets[running].Leave()
		running = next
	}
	require.NoError(t, tickets["b"].Wait(t.Context()))
}

func TestWhoGivesUpTakesNoSlot(t *testing.T) {
	s := slots.New(1)
	running, queued, next := s.Join(nil), s.Join(nil), s.Join(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, queued.Wait(ctx), context.Canceled)
	require.NoError(t, running.Wait(t.Context()))
	running.Leave()
	require.NoError(t, next.Wait(t.Context()))
	next.Leave()

	ended := s.Join(nil) // which has its slot already
	require.ErrorIs(t, ended.Wait(ctx), context.Canceled)
	require.NoError(t, s.Join(nil).Wait(t.Context()))
}

func TestNoMoreGoOnAtOnceThanThereAreSlots(t *testing.T) {
	const n = 3
	s := slots.New(n)
	var now, most atomic.Int64
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%5 == 0 {
				cancel()
			}
			ticket := s.Join(func() bool { return i%2 == 0 })
			if ticket.Wait(ctx) != nil {
				return
			}
			if at := now.Add(1); at > n {
				most.Store(at)
			}
			now.Add(-1)
			ticket.Leave()
		})
	}
	wg.Wait()
	require.Zero(t, most.Load())
	for range n {
		require.NoError(t, s.Join(nil).Wait(t.Context()), "none is lost")
	}
}
