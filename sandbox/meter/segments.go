package meter

import (
	"cmp"
	"slices"

	"github.com/wasmnode/wasmnode/sandbox/wasmbin"
)

// joinGap is how many zero bytes may be written between two data segments to make
// them one. A Go program has tens of thousands of segments, a few bytes apart, and
// each costs every instance some allocations.
const joinGap = 64

// piece is what is at one place in memory.
type piece struct {
	at   uint32
	init []byte
}

func (p piece) end() uint64 { return uint64(p.at) + uint64(len(p.init)) }

// joinSegments returns the data segments with neighbours joined, or as they are
// when the outcome could differ: when some overlap, are not at a constant address,
// or do not fit the memory's initial size, and when the memory is imported, where
// the bytes between two segments need not be zero.
func joinSegments(m *wasmbin.Module) []wasmbin.Segment {
	old := m.Segments()
	if m.Memory == nil {
		return old
	}
	all := make([]piece, len(old))
	for i, s := range old {
		at, ok := s.At()
		all[i] = piece{at, s.Init}
		if !ok || all[i].end() > uint64(m.Memory.Min)<<pageShift {
			return old
		}
	}
	// Segments that do not overlap may be written in any order.
	slices.SortStableFunc(all, func(a, b piece) int { return cmp.Compare(a.at, b.at) })
	joined, ok := join(all)
	if !ok {
		return old
	}
	out := make([]wasmbin.Segment, len(joined))
	for i, p := range joined {
		out[i] = wasmbin.ActiveSegment(p.at, p.init)
	}
	return out
}

func join(all []piece) (joined []piece, ok bool) {
	end := uint64(0)
	for _, p := range all {
		switch n := len(joined); {
		case uint64(p.at) < end:
			return nil, false
		case len(p.init) == 0:
			continue
		case n > 0 && uint64(p.at)-end <= joinGap:
			last := &joined[n-1]
			last.init = append(append(last.init, make([]byte, uint64(p.at)-end)...), p.init...)
		default:
			joined = append(joined, piece{p.at, slices.Clone(p.init)})
		}
		end = p.end()
	}
	return joined, true
}
