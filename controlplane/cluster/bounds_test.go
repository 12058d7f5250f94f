package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func TestANodeRemembersOnlySoMuchOfItsAllocations(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address)
	registered(t, cp)
	s.change(allocID(1), func(*wireAlloc) {})
	s.change(allocID(2), func(*wireAlloc) {})
	news, err := cp.Allocations(t.Context(), nodeID, 0)
	require.NoError(t, err)
	require.Len(t, news.Changed, 2)
	cp.mu.Lock() // no more than a third of their size
	size := cp.pulled.known[allocID(1)].size
	cp.remembered = 3*size - 1
	cp.mu.Unlock()
	require.Greater(t, size, 1000)
	require.NoError(t, cp.fits(allocID(3), size-1))
	require.NoError(t, cp.fits(allocID(1), size), "it is known already")
	s.change(allocID(3), func(*wireAlloc) {})
	s.change(allocID(1), func(a *wireAlloc) { a.DesiredStatus = "stop" })
	for len(news.Changed) != 1 || news.Changed[0].ID != allocID(1) {
		news, err = cp.Allocations(t.Context(), nodeID, news.Index)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return s.lastReport(allocID(3)) != nil }, time.Minute, time.Millisecond)
	require.Equal(t, "failed", s.lastReport(allocID(3)).ClientStatus)
	require.Contains(t, s.lastReport(allocID(3)).ClientDescription, "refused by the node: with it the node would have to remember")
	require.Nil(t, cp.Allocation(allocID(3)))

	// What is gone gives its room back.
	require.NoError(t, cp.UpdateAllocations(t.Context(), nodeID, []*structs.AllocationState{{ID: allocID(1), ClientStatus: structs.ClientComplete}}))
	s.remove(allocID(1))
	for len(news.Gone) != 1 {
		news, err = cp.Allocations(t.Context(), nodeID, news.Index)
		require.NoError(t, err)
	}
	cp.mu.Lock()
	defer cp.mu.Unlock()
	require.Equal(t, cp.pulled.known[allocID(2)].size, cp.pulled.bytes)
}
