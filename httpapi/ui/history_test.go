package ui

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// at is a figure of a time in seconds.
func at(seconds float64, a, b float64) figure {
	return figure{int64(seconds * float64(time.Second)), a, b}
}

func TestFiguresAreKeptOfWhatIsLookedAt(t *testing.T) {
	begin := 1_000_000.0
	h := newHistory()
	require.Len(t, h.add("a", at(begin, 1, 1)), 1)
	require.Len(t, h.add("a", at(begin+1.9, 2, 2)), 1, "two who look at once")
	for i := range 2 * points {
		all := h.add("a", at(begin+float64(i+1)*2, float64(i), 0))
		require.Len(t, all, min(points, i+2))
		require.EqualValues(t, i, all[len(all)-1].a)
		require.IsIncreasing(t, times(all))
	}
	for i := range thingsKept - 1 {
		h.add(fmt.Sprint(i), at(begin+3600+float64(i), 1, 1))
	}
	require.Len(t, h.things, thingsKept)
	h.add("one more", at(begin+7200, 1, 1))
	require.Len(t, h.things, thingsKept)
	require.Len(t, h.add("a", at(begin+7201, 1, 1)), 1, "it was looked at before the others")
	require.Equal(t, 364<<10, int(unsafe.Sizeof(ring{}))*thingsKept, "as is stated")
}

func times(all []figure) (list []int64) {
	for _, f := range all {
		list = append(list, f.at)
	}
	return list
}

func TestWhatWasSeenLongAgoIsForgotten(t *testing.T) {
	h := newHistory()
	h.add("a", at(10, 1, 1))
	require.Len(t, h.add("a", at(10+gap.Seconds()-0.5, 2, 2)), 2)
	require.Len(t, h.add("a", at(10+2*gap.Seconds(), 3, 3)), 1)
	require.Len(t, h.add("a", at(12+2*gap.Seconds(), 4, 4)), 2)
	require.Len(t, h.add("a", at(5, 5, 5)), 1, "the clock was set back")
}

func TestManyLookAtOnce(t *testing.T) {
	h := newHistory()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := range 200 {
				all := h.add(fmt.Sprint((i+n)%(thingsKept+8)), at(float64(10*n), float64(n), float64(n)))
				sparkOf(all, "MiB", second)
			}
		})
	}
	group.Wait()
	require.LessOrEqual(t, len(h.things), thingsKept)
}

func TestALineOfFigures(t *testing.T) {
	require.Nil(t, sparkOf(nil, "MiB", second))
	require.Nil(t, sparkOf([]figure{at(0, 0, 1)}, "MiB", second), "one figure is no line")
	require.Nil(t, sparkOf([]figure{at(0, 0, 1), at(2, 0, math.NaN()), at(4, 0, math.Inf(1))}, "MiB", second), "one is known")
	require.Equal(t, &spark{"0.0,23.0 30.0,12.0 120.0,1.0", "at most 10 MiB in the last 8s"},
		sparkOf([]figure{at(0, 9, 0), at(2, 9, 5), at(8, 9, 10)}, "MiB", second))
	require.Equal(t, &spark{"0.0,23.0 120.0,23.0", "at most 0 MiB in the last 2s"}, sparkOf([]figure{at(0, 0, 0), at(2, 0, 0)}, "MiB", first), "nothing is used")
	require.Equal(t, &spark{"0.0,12.0 120.0,1.0", "at most 0.5 a second in the last 2s"}, sparkOf([]figure{at(0, .25, 0), at(2, .5, 0)}, "a second", first))
	require.Equal(t, &spark{"0.0,23.0 120.0,1.0", "at most 3 in the last 2s"}, sparkOf([]figure{at(0, -5, 0), at(2, 3, 0)}, "", first), "what is below nothing is on the ground")
}

func TestTheRatesOfCounts(t *testing.T) {
	nan := math.NaN()
	got := rates([]figure{at(0, 10, 100), at(2, 14, 300), at(4, 14, 300), at(6, 1, 5), at(7, 3, 6)})
	want := []figure{at(2, 2, 50), at(4, 0, nan), at(6, nan, nan), at(7, 2, .5)}
	require.Equal(t, fmt.Sprint(want), fmt.Sprint(got))
	require.Empty(t, rates([]figure{at(0, 1, 1)}))
}
