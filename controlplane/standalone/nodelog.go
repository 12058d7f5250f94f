package standalone

import "slices"

// maxNodeLog bounds the changes that are remembered for a node. One that has not asked
// for longer is told everything.
const maxNodeLog = 8192

// nodeLog is what changed last of what a node is to know, so that it is told that and not
// all it knows already.
type nodeLog struct {
	index   uint64 // of the last change
	from    uint64 // entries are all changes above this index
	entries []nodeLogEntry
}

type nodeLogEntry struct {
	index   uint64
	allocID string
}

func (l *nodeLog) add(index uint64, allocIDs []string) {
	l.index = index
	for _, id := range allocIDs {
		l.entries = append(l.entries, nodeLogEntry{index, id})
	}
	if drop := len(l.entries) - maxNodeLog; drop > 0 {
		drop = max(drop, maxNodeLog/2)
		l.from = l.entries[drop-1].index
		l.entries = slices.Clone(l.entries[drop:])
	}
}

// since returns what has changed above an index, each once; false: not all of that is known.
func (l *nodeLog) since(index uint64) (allocIDs []string, ok bool) {
	if index == 0 || index < l.from {
		return nil, false
	}
	seen := map[string]bool{}
	for _, e := range slices.Backward(l.entries) {
		if e.index <= index {
			break
		}
		if !seen[e.allocID] {
			seen[e.allocID] = true
			allocIDs = append(allocIDs, e.allocID)
		}
	}
	return allocIDs, true
}
