package standalone

import (
	"fmt"
	"slices"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
)

// row is of a group, and due at a second, unless these are 0.
type row struct{ group, second int }

func (r row) in() (int, bool) { return r.group, r.group != 0 }

func (r row) at() (time.Time, bool) { return time.Unix(int64(r.second), 0), r.second != 0 }

// TestIndexesSayWhatAScanWouldSay puts and deletes random rows in transactions of which
// some are committed, and compares the indexes with a look at every row.
func TestIndexesSayWhatAScanWouldSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, committed, due := map[int]row{}, groups[int, int, row]{}, newTimeline[int]()
		for range rapid.IntRange(1, 8).Draw(t, "transactions") {
			table := &changes[int, row]{base: base}
			byGroup := groupBy(table, committed, row.in)
			timeBy(table, due, row.at)
			for range rapid.IntRange(0, 12).Draw(t, "changes") {
				key := rapid.IntRange(1, 6).Draw(t, "key")
				if rapid.Bool().Draw(t, "delete") {
					table.delete(key)
				} else {
					table.put(key, row{rapid.IntRange(0, 2).Draw(t, "group"), rapid.IntRange(0, 3).Draw(t, "second")})
				}
				scan := map[int][]row{}
				table.all(func(_ int, r row) { scan[r.group] = append(scan[r.group], r) })
				for group := 1; group <= 2; group++ {
					require.ElementsMatch(t, scan[group], byGroup.in(group))
				}
			}
			if rapid.Bool().Draw(t, "commit") {
				table.merge()
			}
			checkIndexes(t, base, committed, due)
		}
	})
}

// TestTotalsSayWhatASumWouldSay does the same with allocations of two nodes, some of which
// wait for others or have ended.
func TestTotalsSayWhatASumWouldSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, committed := map[string]*schedule.Alloc{}, map[string]*schedule.Taken{}
		for range rapid.IntRange(1, 6).Draw(t, "transactions") {
			table := &changes[string, *schedule.Alloc]{base: base}
			x := addUp(table, committed)
			for range rapid.IntRange(0, 8).Draw(t, "changes") {
				id := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "id")
				if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
					table.delete(id)
				} else {
					table.put(id, drawAlloc(t, id))
				}
				for _, node := range []string{"m", "n"} {
					require.Equal(t, sum(node, schedule.NewTaken(committed[node]), table.all, base), x.on(node))
				}
			}
			if rapid.Bool().Draw(t, "commit") {
				table.merge()
			}
			for node, taken := range committed {
				rows := &changes[string, *schedule.Alloc]{base: base}
				require.Equal(t, sum(node, schedule.NewTaken(nil), rows.all, nil), taken)
			}
		}
	})
}

func drawAlloc(t *rapid.T, id string) *schedule.Alloc {
	return &schedule.Alloc{Allocation: &structs.Allocation{
		ID:                 id,
		NodeID:             rapid.SampledFrom([]string{"m", "n"}).Draw(t, "node"),
		ClientStatus:       rapid.SampledFrom([]structs.ClientStatus{structs.ClientPending, structs.ClientRunning, structs.ClientComplete}).Draw(t, "status"),
		DesiredStatus:      rapid.SampledFrom([]structs.DesiredStatus{structs.DesiredRun, structs.DesiredRun, structs.DesiredStop}).Draw(t, "desired"),
		PreviousAllocation: rapid.SampledFrom([]string{"", "e"}).Draw(t, "previous"),
		NextAllocation:     rapid.SampledFrom([]string{"", "", "f"}).Draw(t, "next"),
		Job:                &nomad.Job{Priority: new(rapid.IntRange(1, 2).Draw(t, "priority"))},
		Resources: structs.AllocatedResources{
			DiskMB: 7,
			Ports:  []structs.AllocatedPort{{Value: rapid.IntRange(1, 2).Draw(t, "port")}},
			Tasks:  map[string]*structs.TaskResources{"t": {CPUMHz: rapid.IntRange(0, 3).Draw(t, "cpu"), Cores: []int{0}}},
		},
	}}
}

// sum adds to a total what the rows of a node count, and removes what others do.
func sum(node string, taken *schedule.Taken, rows func(func(string, *schedule.Alloc)), without map[string]*schedule.Alloc) *schedule.Taken {
	rows(func(_ string, a *schedule.Alloc) {
		if a.NodeID == node && schedule.InTotal(a.Allocation) {
			taken.Add(a.Allocation)
		}
	})
	for _, a := range without {
		if a.NodeID == node && schedule.InTotal(a.Allocation) {
			taken.Remove(a.Allocation)
		}
	}
	return taken
}

func checkIndexes(t *rapid.T, base map[int]row, committed groups[int, int, row], due *timeline[int]) {
	scan, first := groups[int, int, row]{}, 0
	var dueKeys []int
	for key, r := range base {
		if r.group != 0 {
			scan.set(r.group, key, r, true)
		}
		if r.second != 0 && (first == 0 || r.second < first) {
			first = r.second
		}
		if r.second != 0 && r.second <= 2 {
			dueKeys = append(dueKeys, key)
		}
	}
	require.Equal(t, scan, committed)
	at, ok := due.first()
	require.Equal(t, first != 0, ok)
	require.True(t, !ok || at.Equal(time.Unix(int64(first), 0)))
	keys := due.due(time.Unix(2, 0))
	require.ElementsMatch(t, dueKeys, keys)
	require.True(t, slices.IsSortedFunc(keys, func(a, b int) int { return base[a].second - base[b].second }))
	require.Len(t, due.place, len(due.entries))
}

func TestANodeIsToldWhatChangedAndEverythingWhenThatIsNotKnownAnyMore(t *testing.T) {
	l := &nodeLog{index: 10, from: 10}
	l.add(11, []string{"a", "b"})
	l.add(12, []string{"a"})
	l.add(13, nil)
	for since, want := range map[uint64][]string{10: {"a", "b"}, 11: {"a"}, 12: nil, 13: nil} {
		ids, ok := l.since(since)
		require.True(t, ok, since)
		require.ElementsMatch(t, want, ids, since)
	}
	for _, since := range []uint64{0, 9} {
		_, ok := l.since(since)
		require.False(t, ok, since)
	}
	for i := range uint64(2 * maxNodeLog) {
		l.add(100+i, []string{fmt.Sprint(i)})
		require.LessOrEqual(t, len(l.entries), maxNodeLog)
		ids, ok := l.since(99 + i)
		require.True(t, ok)
		require.Equal(t, []string{fmt.Sprint(i)}, ids)
	}
	_, ok := l.since(13)
	require.False(t, ok)
	ids, ok := l.since(l.from)
	require.True(t, ok)
	require.Len(t, ids, len(l.entries))
}

// TestRowsInOrderAreASortedScan does the same with an order, and reads parts of it both ways.
func TestRowsInOrderAreASortedScan(t *testing.T) {
	type numbered struct{ key, version int }
	rapid.Check(t, func(t *rapid.T) {
		base := map[int]numbered{}
		committed := &ordered[numbered]{compare: func(a, b numbered) int { return a.key - b.key }}
		for version := range rapid.IntRange(1, 8).Draw(t, "transactions") {
			table := &changes[int, numbered]{base: base}
			orderBy(table, committed)
			for range rapid.IntRange(0, 12).Draw(t, "changes") {
				key := rapid.IntRange(1, 20).Draw(t, "key")
				if rapid.IntRange(0, 2).Draw(t, "delete") == 0 {
					table.delete(key)
				} else {
					table.put(key, numbered{key, version})
				}
			}
			if rapid.Bool().Draw(t, "commit") {
				table.merge()
			}
			place, n := rapid.IntRange(0, 21).Draw(t, "place"), rapid.IntRange(0, 21).Draw(t, "n")
			scan := func(backwards bool) []numbered {
				rows := []numbered{}
				for key, row := range base {
					if key == place || key < place == backwards {
						rows = append(rows, row)
					}
				}
				slices.SortFunc(rows, committed.compare)
				if backwards {
					slices.Reverse(rows)
				}
				return rows[:min(n, len(rows))]
			}
			for _, backwards := range []bool{false, true} {
				got := committed.from(func(row numbered) int { return row.key - place }, backwards, n)
				require.Equal(t, scan(backwards), append([]numbered{}, got...))
			}
		}
	})
}
