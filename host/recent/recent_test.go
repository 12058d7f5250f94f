package recent_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/host/recent"
)

// all reads what there is, and how many were lost before it.
func all(t *testing.T, r *recent.Reader[int]) (values []int, lost uint64) {
	t.Helper()
	for {
		v, n, err := r.Read()
		lost += n
		if err != nil {
			require.ErrorIs(t, err, recent.ErrEnd)
			return values, lost
		}
		values = append(values, v)
	}
}

func TestTheBoundIsKeptAtItsEdge(t *testing.T) {
	l := recent.New[int](10)
	l.Add(1, 4)
	l.Add(2, 6)
	values, _ := all(t, l.Last(100))
	require.Equal(t, []int{1, 2}, values, "as many bytes as it may have")
	l.Add(3, 1)
	values, _ = all(t, l.Last(100))
	require.Equal(t, []int{2, 3}, values, "one more")
	l.Add(4, 100)
	values, _ = all(t, l.Last(100))
	require.Equal(t, []int{4}, values, "the latest in any case")
	l.Add(5, 10)
	values, _ = all(t, l.Last(100))
	require.Equal(t, []int{5}, values)
}

func TestAReaderBeginsWithTheLast(t *testing.T) {
	l := recent.New[int](100)
	for i := range 5 {
		l.Add(i, 1)
	}
	for n, want := range map[int][]int{-1: nil, 0: nil, 1: {4}, 2: {3, 4}, 5: {0, 1, 2, 3, 4}, 6: {0, 1, 2, 3, 4}} {
		values, lost := all(t, l.Last(n))
		require.Equal(t, want, values)
		require.Zero(t, lost)
	}
}

func TestASlowReaderIsToldHowManyItLost(t *testing.T) {
	l := recent.New[int](3)
	r := l.Last(0)
	for i := range 10 {
		l.Add(i, 1)
	}
	values, lost := all(t, r)
	require.Equal(t, []int{7, 8, 9}, values)
	require.EqualValues(t, 7, lost)
	l.Add(10, 1)
	values, lost = all(t, r)
	require.Equal(t, []int{10}, values)
	require.Zero(t, lost, "it is told once")
}

func TestReadersWaitForWhatIsAddedConcurrently(t *testing.T) {
	const writers, each = 4, 200
	l := recent.New[int](1 << 20)
	var wg sync.WaitGroup
	for range 3 {
		r := l.Last(0)
		wg.Go(func() {
			for range writers * each {
				if _, lost, err := r.Wait(t.Context()); err != nil || lost > 0 {
					t.Errorf("lost %d, error %v", lost, err)
					return
				}
			}
		})
	}
	for i := range writers {
		wg.Go(func() {
			for range each {
				l.Add(i, 1)
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := l.Last(0).Wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
}
