package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/structs"
)

// gcParallel is how many are destroyed at once (Nomad's).
const gcParallel = 2

// gcLoop destroys the oldest ended allocations while there are too many. It looks
// whenever the control plane has taken a report: no other time can have made more.
func (n *Node) gcLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.ended:
			n.collect(ctx, n.cfg.GCMaxAllocs)
		}
	}
}

// CollectGarbage destroys every allocation that has ended, and returns when they are
// gone or ctx is done.
func (n *Node) CollectGarbage(ctx context.Context) { n.collect(ctx, 0) }

// CollectAllocation destroys one allocation that has ended, and returns when it is gone
// or ctx is done. An unknown one is NOT_FOUND, one whose end the control plane does not
// know FAILED_PRECONDITION.
func (n *Node) CollectAllocation(ctx context.Context, allocID string) error {
	if _, err := n.runner(allocID); err != nil {
		return err
	}
	if !n.report.endKnown(allocID) {
		return abi.NewError(abi.FailedPrecondition, fmt.Sprintf("allocation %q has not ended: stop it first", allocID))
	}
	select {
	case <-n.destroy(allocID):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

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

// victims chooses what to destroy. An allocation whose end the control plane does not
// know is kept: if the agent died after it was forgotten, it would be run again. So is
// one whose disk another waits to take over.
func (n *Node) victims(limit int) []string {
	type candidate struct {
		id    string
		ended time.Time
	}
	n.mu.Lock()
	live := 0
	var ended []candidate
	var running []*alloc.Runner
	for id, e := range n.runners {
		if e.going {
			continue
		}
		live++
		if e.ended.IsZero() {
			running = append(running, e.runner)
		} else {
			ended = append(ended, candidate{id, e.ended})
		}
	}
	n.mu.Unlock()
	if live <= limit || len(ended) == 0 {
		return nil
	}
	needed := map[string]bool{}
	for _, r := range running {
		if r.Alloc().PreviousAllocation != "" && r.AllocState().ClientStatus == structs.ClientPending {
			needed[r.Alloc().PreviousAllocation] = true
		}
	}
	ended = slices.DeleteFunc(ended, func(c candidate) bool { return needed[c.id] || !n.report.endKnown(c.id) })
	slices.SortFunc(ended, func(a, b candidate) int {
		return cmp.Or(a.ended.Compare(b.ended), strings.Compare(a.id, b.id))
	})
	var ids []string
	for _, c := range ended[:min(len(ended), live-limit)] {
		ids = append(ids, c.id)
	}
	return ids
}
