package node

import (
	"context"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/workload"
)

// orphanTime bounds the ending of orphans before the node goes on without it.
const orphanTime = 30 * time.Second

// Workloads is what runs on the machine on behalf of tasks, and outlives the node.
type Workloads interface {
	List(ctx context.Context) ([]*workload.Status, error)
	Destroy(ctx context.Context, id string) error
}

// destroyOrphans ends the workloads that no task of the node's state claims: that state
// was lost, or the node was killed between forgetting an allocation and ending its tasks.
// It runs before anything is restored, which starts anew what is not known to be running.
func (n *Node) destroyOrphans(ctx context.Context) {
	if n.cfg.Workloads == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, orphanTime)
	defer cancel()
	list, err := n.cfg.Workloads.List(ctx)
	if err != nil {
		n.logger.Error("looking for orphans failed", "error", err)
		return
	}
	for _, w := range list {
		if n.claimed(w.ID) {
			continue
		}
		n.logger.Warn("destroying an orphaned workload: no task claims it", "id", w.ID, "state", w.State, "started", w.StartedAt)
		if err := n.cfg.Workloads.Destroy(ctx, w.ID); err != nil {
			n.logger.Error("destroying an orphaned workload failed", "id", w.ID, "error", err)
		}
	}
}

// claimed reports whether a task of the node's state has that workload. Its ID is
// durable before the workload starts.
func (n *Node) claimed(id string) bool {
	allocID, rest, _ := strings.Cut(id, "/")
	task, _, _ := strings.Cut(rest, "/")
	local, _, err := n.cfg.State.Task(allocID, task)
	if err != nil {
		n.logger.Error("a task's state cannot be read", "id", id, "error", err)
		return true
	}
	return local != nil && local.TaskID == id
}
