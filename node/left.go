package node

import (
	"context"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
)

// Workloads are what tasks run as, where that outlives the node.
type Workloads interface {
	// Answers reports whether anything may have outlived the node. It starts nothing.
	Answers(ctx context.Context) bool
	List(ctx context.Context) ([]*workload.Status, error)
	Inspect(ctx context.Context, id string) (*workload.Status, error)
	Destroy(ctx context.Context, id string) error
}

// leftTime bounds each look at what outlived the last agent.
const leftTime = 5 * time.Second

// left is what outlived the last agent, as it was found when this one started. It
// implements task.Left.
type left struct {
	workloads Workloads // nil: nothing outlives an agent
	rebooted  bool      // the machine was restarted
	known     bool      // list is all that there is
	list      []*workload.Status
	listed    map[string]*workload.Status // by ID
}

// survey looks for what outlived the last agent.
func survey(ctx context.Context, w Workloads, rebooted bool) (*left, error) {
	l := &left{workloads: w, rebooted: rebooted, listed: map[string]*workload.Status{}}
	ctx, cancel := context.WithTimeout(ctx, leftTime)
	defer cancel()
	if w == nil || !w.Answers(ctx) {
		l.known = true
		return l, nil
	}
	list, err := w.List(ctx)
	if err != nil {
		return l, err
	}
	l.list, l.known = list, true
	for _, s := range list {
		l.listed[s.ID] = s
	}
	return l, nil
}

// Gone implements task.Left.
func (l *left) Gone(run string, hasWorkload bool) string {
	switch {
	case l.listed[run] != nil:
		return ""
	case l.rebooted:
		return "the restart of the machine"
	case l.known && hasWorkload:
		return "the end of the supervisor that it ran in"
	}
	return ""
}

// Run implements task.Left. A run that goes on comes before one that has ended.
func (l *left) Run(allocID, task string, since time.Time) (run string) {
	running := false
	for _, s := range l.list { // the longest started first
		if s.Beside != "" || s.StartedAt.Before(since) || !strings.HasPrefix(s.ID, allocID+"/"+task+"/") {
			continue
		}
		if s.State == workload.Running || !running {
			run, running = s.ID, s.State == workload.Running
		}
	}
	return run
}

// Inspect implements task.Left.
func (l *left) Inspect(ctx context.Context, run string) (*workload.Status, error) {
	if l.workloads == nil {
		return nil, abi.ErrTaskNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, leftTime)
	defer cancel()
	return l.workloads.Inspect(ctx, run)
}

// allocOf is the allocation that a workload is named after.
func allocOf(workloadID string) string {
	allocID, _, _ := strings.Cut(workloadID, "/")
	return allocID
}

// of reports whether anything was found of an allocation.
func (l *left) of(allocID string) bool {
	for _, s := range l.list {
		if allocOf(s.ID) == allocID {
			return true
		}
	}
	return false
}
