package standalone

import "slices"

// ordered are a table's committed rows in an order in which no two are equal. A row that comes
// or goes moves those behind it: that is cheap for as many as fit into a table, and for those
// that come last costs nothing.
type ordered[V any] struct {
	rows    []V
	compare func(a, b V) int
}

// from returns up to n rows: those at and after a place, or, backwards, those at and before it,
// the last first. A place is told by how it compares to a row.
func (o *ordered[V]) from(compare func(V) int, backwards bool, n int) []V {
	at, found := slices.BinarySearchFunc(o.rows, struct{}{}, func(row V, _ struct{}) int { return compare(row) })
	if !backwards {
		return slices.Clone(o.rows[at:min(len(o.rows), at+n)])
	}
	if found {
		at++
	}
	rows := slices.Clone(o.rows[max(0, at-n):at])
	slices.Reverse(rows)
	return rows
}

func (o *ordered[V]) set(row V, in bool) {
	at, found := len(o.rows), false
	if n := len(o.rows); n > 0 && o.compare(o.rows[n-1], row) >= 0 {
		at, found = slices.BinarySearchFunc(o.rows, row, o.compare)
	}
	switch {
	case in && !found:
		o.rows = slices.Insert(o.rows, at, row)
	case !in && found:
		o.rows = slices.Delete(o.rows, at, at+1)
	}
}

// inOrder is an index of rows in their order. A transaction sees it as it was committed.
type inOrder[K comparable, V any] struct{ base *ordered[V] }

// orderBy adds an index to a table of a transaction, as [groupBy] does.
func orderBy[K comparable, V any](table *changes[K, V], base *ordered[V]) {
	table.indexes = append(table.indexes, inOrder[K, V]{base})
}

func (inOrder[K, V]) staged(K, V, bool) {}

func (x inOrder[K, V]) committed(_ K, row V, in bool) { x.base.set(row, in) }
