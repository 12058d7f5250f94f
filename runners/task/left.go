package task

import (
	"context"
	"time"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// Left is what outlived the last agent, as far as the node knows.
type Left interface {
	// Gone returns with what a run was lost that was running, such as "the restart of the
	// machine"; empty: it may still be there. workload: the run has one, of the run's ID. Of no run, it
	// is whether the machine was restarted.
	Gone(run string, workload bool) (with string)
	// Run is the newest run of a task that has a workload and was not started before a time;
	// empty: there is none.
	Run(allocID, task string, since time.Time) (run string)
	// Inspect is the state of a run's workload.
	Inspect(ctx context.Context, run string) (*workload.Status, error)
}

// Restored is what a stored state of a task is worth: a task whose run is gone does not run.
// The state is not changed.
func Restored(s *structs.TaskState, local *state.TaskLocal, left Left) *structs.TaskState {
	s = s.Copy()
	if s != nil && local != nil && goneWith(left, local, s) != "" {
		s.Enter(structs.TaskPending, time.Now())
	}
	return s
}

// goneWith returns with what the stored run of a task that runs was lost; empty: it may be
// there.
func goneWith(left Left, local *state.TaskLocal, s *structs.TaskState) string {
	if left == nil || local.TaskID == "" || s.State != structs.TaskRunning {
		return ""
	}
	var handle wasmnodev1.TaskHandle
	hasWorkload := handle.UnmarshalVT(local.Handle) == nil && handle.GetWorkloadId() != ""
	return left.Gone(local.TaskID, hasWorkload)
}
