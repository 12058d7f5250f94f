package agent

import (
	"context"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/workload/supervisor"
)

// orphanTime bounds the ending of orphans before the agent goes on without it.
const orphanTime = 30 * time.Second

// destroyOrphans ends the workloads that a supervisor has kept and that no task of
// the node's state claims: that state was lost, or the agent was killed between
// forgetting an allocation and ending its tasks. It has to run before the node does,
// which starts anew what it does not know to be running.
func (a *agent) destroyOrphans(ctx context.Context) {
	client, ok := a.workloads.(*supervisor.Client)
	if !ok || !client.Answers(ctx) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, orphanTime)
	defer cancel()
	list, err := client.List(ctx)
	if err != nil {
		a.logger.Error("looking for orphans failed", "error", err)
		return
	}
	for _, w := range list {
		if a.claimed(w.ID) {
			continue
		}
		a.logger.Warn("destroying a task that nobody claims", "id", w.ID, "state", w.State, "started", w.StartedAt)
		if err := client.Destroy(ctx, w.ID); err != nil {
			a.logger.Error("an orphan is left", "id", w.ID, "error", err)
		}
	}
}

// claimed reports whether a task of the node's state has that workload. Its ID is
// durable before the workload starts.
func (a *agent) claimed(id string) bool {
	allocID, rest, _ := strings.Cut(id, "/")
	task, _, _ := strings.Cut(rest, "/")
	local, _, err := a.state.Task(allocID, task)
	if err != nil {
		a.logger.Error("a task's state cannot be read", "id", id, "error", err)
		return true
	}
	return local != nil && local.TaskID == id
}
