package node

import (
	"context"
	"slices"
	"strings"
	"time"
)

// gcInterval is how often the node looks for allocations to destroy (Nomad's).
const gcInterval = time.Minute

// gcParallel is how many are destroyed at once (Nomad's).
const gcParallel = 2

// gcLoop destroys the oldest ended allocations while there are too many.
func (n *Node) gcLoop(ctx context.Context) {
	ticker := time.NewTicker(gcInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			n.collect(ctx, n.cfg.GCMaxAllocs)
		}
	}
}

// CollectGarbage destroys every allocation that has ended, and returns when they are
// gone or ctx is done.
func (n *Node) CollectGarbage(ctx context.Context) { n.collect(ctx, 0) }

// collect destroys ended allocations, the oldest first, until no more than limit are
// left, those that go already not counted.
func (n *Node) collect(ctx context.Context, limit int) {
	victims := n.victims(limit)
	for batch := range slices.Chunk(victims, gcParallel) {
		var done []<-chan struct{}
		for _, id := range batch {
			n.logger.Debug("destroying an ended allocation", "alloc_id", id)
			done = append(done, n.destroy(id))
		}
		for _, d := range done {
			select {
			case <-d:
			case <-ctx.Done():
				return
			}
		}
	}
}

// victims chooses what to destroy.
func (n *Node) victims(limit int) []string {
	type candidate struct {
		id    string
		ended time.Time
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	live := 0
	var ended []candidate
	for id, e := range n.runners {
		if e.going {
			continue
		}
		live++
		if !e.ended.IsZero() {
			ended = append(ended, candidate{id, e.ended})
		}
	}
	slices.SortFunc(ended, func(a, b candidate) int {
		if c := a.ended.Compare(b.ended); c != 0 {
			return c
		}
		return strings.Compare(a.id, b.id)
	})
	var ids []string
	for _, c := range ended[:max(0, min(len(ended), live-limit))] {
		ids = append(ids, c.id)
	}
	return ids
}
