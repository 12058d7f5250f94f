package standalone

import (
	"container/heap"
	"slices"
	"time"
)

// An index keeps a table's rows by something else than their key, so that what is asked
// for is found without looking at the others. It is no table of its own: it is not stored,
// and follows its table's rows.
type index[K comparable, V any] interface {
	// staged is told what a transaction puts, and which row that, or a delete, takes the place
	// of: a committed one or its own.
	staged(key K, row V, in bool)
	// committed is told what a transaction that is made visible takes out and puts in.
	committed(key K, row V, in bool)
}

// groups are a table's rows by what they have in common. No group is empty.
type groups[G, K comparable, V any] map[G]map[K]V

func (g groups[G, K, V]) set(group G, key K, row V, in bool) {
	rows := g[group]
	switch {
	case !in:
		delete(rows, key)
		if len(rows) == 0 {
			delete(g, group)
		}
	case rows == nil:
		g[group] = map[K]V{key: row}
	default:
		rows[key] = row
	}
}

// grouped is an index of groups, as a transaction sees it.
type grouped[G, K comparable, V any] struct {
	table *changes[K, V]
	base  groups[G, K, V]
	puts  groups[G, K, V]
	// of returns a row's group; false: it is in none.
	of func(V) (G, bool)
}

// groupBy adds an index to a table of a transaction. The committed groups are of the rows
// that the table's base has.
func groupBy[G, K comparable, V any](table *changes[K, V], base groups[G, K, V], of func(V) (G, bool)) *grouped[G, K, V] {
	x := &grouped[G, K, V]{table: table, base: base, puts: groups[G, K, V]{}, of: of}
	table.indexes = append(table.indexes, x)
	return x
}

func (x *grouped[G, K, V]) staged(key K, row V, in bool) {
	if group, ok := x.of(row); ok {
		x.puts.set(group, key, row, in)
	}
}

func (x *grouped[G, K, V]) committed(key K, row V, in bool) {
	if group, ok := x.of(row); ok {
		x.base.set(group, key, row, in)
	}
}

// in returns a group's rows as the transaction sees them, in no order.
func (x *grouped[G, K, V]) in(group G) []V {
	rows := make([]V, 0, len(x.base[group])+len(x.puts[group]))
	for key, row := range x.base[group] {
		if !x.table.changed(key) {
			rows = append(rows, row)
		}
	}
	for _, row := range x.puts[group] {
		rows = append(rows, row)
	}
	return rows
}

// timeline is the keys of a table's committed rows by when each is due: a heap that knows
// where in it each key is.
type timeline[K comparable] struct {
	entries []timelineEntry[K]
	place   map[K]int // in entries
}

type timelineEntry[K comparable] struct {
	key K
	at  time.Time
}

func newTimeline[K comparable]() *timeline[K] { return &timeline[K]{place: map[K]int{}} }

// first returns when the next key is due; false: none ever is.
func (t *timeline[K]) first() (at time.Time, ok bool) {
	if len(t.entries) == 0 {
		return time.Time{}, false
	}
	return t.entries[0].at, true
}

// due returns the keys whose time has come, the earliest first.
func (t *timeline[K]) due(now time.Time) (keys []K) {
	var entries []timelineEntry[K]
	var visit func(i int)
	visit = func(i int) {
		// What is below an entry is not due before it.
		if i < len(t.entries) && !t.entries[i].at.After(now) {
			entries = append(entries, t.entries[i])
			visit(2*i + 1)
			visit(2*i + 2)
		}
	}
	visit(0)
	slices.SortStableFunc(entries, func(a, b timelineEntry[K]) int { return a.at.Compare(b.at) })
	for _, e := range entries {
		keys = append(keys, e.key)
	}
	return keys
}

func (t *timeline[K]) set(key K, at time.Time, in bool) {
	i, known := t.place[key]
	switch {
	case known && !in:
		heap.Remove((*timelineHeap[K])(t), i)
	case known:
		t.entries[i].at = at
		heap.Fix((*timelineHeap[K])(t), i)
	case in:
		heap.Push((*timelineHeap[K])(t), timelineEntry[K]{key, at})
	}
}

// timelineHeap is a timeline for package heap.
type timelineHeap[K comparable] timeline[K]

func (h *timelineHeap[K]) Len() int           { return len(h.entries) }
func (h *timelineHeap[K]) Less(i, j int) bool { return h.entries[i].at.Before(h.entries[j].at) }

func (h *timelineHeap[K]) Swap(i, j int) {
	h.entries[i], h.entries[j] = h.entries[j], h.entries[i]
	h.place[h.entries[i].key], h.place[h.entries[j].key] = i, j
}

func (h *timelineHeap[K]) Push(x any) {
	e := x.(timelineEntry[K])
	h.place[e.key] = len(h.entries)
	h.entries = append(h.entries, e)
}

func (h *timelineHeap[K]) Pop() any {
	last := h.entries[len(h.entries)-1]
	h.entries = h.entries[:len(h.entries)-1]
	delete(h.place, last.key)
	return last
}

// timed is an index of when rows are due. A transaction sees it as it was committed.
type timed[K comparable, V any] struct {
	base *timeline[K]
	// at returns when a row is due; false: never.
	at func(V) (time.Time, bool)
}

// timeBy adds an index to a table of a transaction, as [groupBy] does.
func timeBy[K comparable, V any](table *changes[K, V], base *timeline[K], at func(V) (time.Time, bool)) {
	table.indexes = append(table.indexes, &timed[K, V]{base, at})
}

func (x *timed[K, V]) staged(K, V, bool) {}

func (x *timed[K, V]) committed(key K, row V, in bool) {
	if at, ok := x.at(row); ok {
		x.base.set(key, at, in)
	}
}
