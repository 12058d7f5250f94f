package node

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/workload"
)

// Workloads are what tasks run as, where that outlives the node.
type Workloads interface {
	// Answers reports whether anything may have outlived the node. It starts nothing.
	Answers(ctx context.Context) bool
	List(ctx context.Context) ([]*workload.Status, error)
	Destroy(ctx context.Context, id string) error
}

// orphanTime bounds the ending of orphans before the node goes on without it.
const orphanTime = 30 * time.Second

// destroyOrphans ends the workloads that outlived the node and that no task claims: their
// state was lost, or the agent was killed between forgetting an allocation and ending its
// tasks. It runs between the runners' restoring and their running, which starts again what
// is not known to run. What is of an allocation that could not be read back, unread, is
// not known to be an orphan.
func (n *Node) destroyOrphans(ctx context.Context, restored []*alloc.Runner, unread []string) {
	if n.cfg.Workloads == nil || !n.cfg.Workloads.Answers(ctx) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, orphanTime)
	defer cancel()
	list, err := n.cfg.Workloads.List(ctx)
	if err != nil {
		n.logger.Error("looking for orphans failed", "error", err)
		return
	}
	claimed := map[string]bool{}
	for _, r := range restored {
		for _, id := range r.RestoredRuns() {
			claimed[id] = true
		}
	}
	for _, w := range list {
		// A run is named after its allocation.
		allocID, _, _ := strings.Cut(w.ID, "/")
		if claimed[w.ID] || slices.Contains(unread, allocID) {
			continue
		}
		n.logger.Warn("destroying an orphaned workload: no task claims it", "id", w.ID, "state", w.State, "started", w.StartedAt)
		if err := n.cfg.Workloads.Destroy(ctx, w.ID); err != nil {
			n.logger.Error("destroying an orphaned workload failed", "id", w.ID, "error", err)
		}
	}
}
