package ui

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFiguresAreKeptOfTheTasksThatAreLookedAt(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	h := &history{tasks: map[string][]figure{}}
	require.Len(t, h.add("a", figure{begin, 1, 1}), 1)
	require.Len(t, h.add("a", figure{begin.Add(apart - 1), 2, 2}), 1, "two who look at once")
	for i := range 2 * points {
		all := h.add("a", figure{begin.Add(time.Duration(i+1) * apart), i, i})
		require.Len(t, all, min(points, i+2))
		require.Equal(t, i, all[len(all)-1].ticks)
	}
	for i := range tasksKept - 1 {
		h.add(fmt.Sprint(i), figure{begin.Add(time.Hour + time.Duration(i)), 1, 1})
	}
	require.Len(t, h.tasks, tasksKept)
	require.Contains(t, h.tasks, "a")
	h.add("one more", figure{begin.Add(2 * time.Hour), 1, 1})
	require.Len(t, h.tasks, tasksKept)
	require.NotContains(t, h.tasks, "a", "it was looked at before the others")
}

func TestManyLookAtOnce(t *testing.T) {
	h := &history{tasks: map[string][]figure{}}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := range 200 {
				all := h.add(fmt.Sprint((i+n)%(tasksKept+8)), figure{time.Unix(int64(10*n), 0), n, n})
				sparkOf(all, "MiB", func(f figure) int { return f.memory })
			}
		})
	}
	group.Wait()
	require.LessOrEqual(t, len(h.tasks), tasksKept)
}

func TestALineOfFigures(t *testing.T) {
	at := func(seconds int, memory int) figure { return figure{time.Unix(int64(seconds), 0), 0, memory} }
	memory := func(f figure) int { return f.memory }
	require.Nil(t, sparkOf(nil, "MiB", memory))
	require.Nil(t, sparkOf([]figure{at(0, 1)}, "MiB", memory), "one figure is no line")
	require.Equal(t, &spark{"0.0,23.0 30.0,12.0 120.0,1.0", "at most 10 MiB in the last 8s"},
		sparkOf([]figure{at(0, 0), at(2, 5), at(8, 10)}, "MiB", memory))
	require.Equal(t, &spark{"0.0,23.0 120.0,23.0", "at most 1 MiB in the last 2s"}, sparkOf([]figure{at(0, 0), at(2, 0)}, "MiB", memory), "nothing is used")
}
