package node

import (
	"context"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/workload"
)

// strayTime bounds the ending of abandoned workloads before the node goes on without it.
const strayTime = 30 * time.Second

// findStrays looks for workloads that no task claims. One of an allocation that was read
// back is abandoned: the agent was killed between forgetting it and ending it. It is ended
// between the runners' restoring and their running. Of any other it is not known whether it
// is wanted, and it runs on.
func (n *Node) findStrays(ctx context.Context, restored []*alloc.Runner) {
	claimed, read := map[string]bool{}, map[string]bool{}
	for _, r := range restored {
		read[r.Alloc().ID] = true
		for _, id := range r.RestoredRuns() {
			claimed[id] = true
		}
	}
	var abandoned []*workload.Status
	n.mu.Lock()
	for _, w := range n.left.list {
		switch {
		case claimed[w.ID], claimed[w.Beside]: // what stands beside a run goes with it
		case read[allocOf(w.ID)]:
			abandoned = append(abandoned, w)
		default:
			n.strays[w.ID] = w
		}
	}
	n.dirs = n.strayDirs()
	n.mu.Unlock()
	n.destroyAbandoned(ctx, abandoned)
}

// strayDirs are the directories of allocations that the node does not know. n.mu is held.
func (n *Node) strayDirs() map[string]bool {
	dirs := map[string]bool{}
	entries, err := os.ReadDir(n.cfg.AllocsDir)
	if err != nil {
		n.logger.Error("looking for directories of allocations failed", "error", err)
	}
	for _, e := range entries {
		if id := e.Name(); uuid.Validate(id) == nil && n.runners[id] == nil && n.unread[id] == nil {
			dirs[id] = true
		}
	}
	return dirs
}

// hasDir reports whether there is a directory of an allocation that has no runner.
func (n *Node) hasDir(id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dirs[id] && n.runners[id] == nil
}

// settleStrays looks at the strays again when the control plane has answered: a task may
// have taken one back, and what is of an allocation that has ended is abandoned.
func (n *Node) settleStrays() {
	var abandoned []*workload.Status
	n.mu.Lock()
	n.settled = true
	for id := range n.dirs {
		if n.runners[id] != nil {
			delete(n.dirs, id)
		}
	}
	for id, w := range n.strays {
		allocID := allocOf(id)
		switch {
		case n.runners[allocID] != nil:
			delete(n.strays, id)
		case n.endedHere(allocID):
			abandoned = append(abandoned, w)
			delete(n.strays, id)
		}
	}
	n.mu.Unlock()
	if len(abandoned) > 0 {
		n.destroyAbandoned(context.Background(), abandoned)
	}
}

func (n *Node) destroyAbandoned(ctx context.Context, list []*workload.Status) {
	ctx, cancel := context.WithTimeout(ctx, strayTime)
	defer cancel()
	for _, w := range list {
		n.logger.Warn("destroying an abandoned workload: its allocation is known and does not have it", "id", w.ID, "state", w.State, "started", w.StartedAt)
		if err := n.cfg.Workloads.Destroy(ctx, w.ID); err != nil {
			n.logger.Error("destroying an abandoned workload failed", "id", w.ID, "error", err)
		}
	}
}
