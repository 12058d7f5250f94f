package agent

import (
	"context"
	"fmt"
	"sync"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
)

// together are an agent's own workloads, of which some stand beside others, as a supervisor
// has them: they are destroyed together. What has ended is destroyed by its task soon, so
// nothing watches for that.
type together struct {
	workload.Runtime
	starting sync.Mutex // one beside another at a time, so that they are counted
}

// Start implements [workload.Runtime].
func (r *together) Start(ctx context.Context, spec *workload.Spec) error {
	if spec.Beside == "" {
		return r.Runtime.Start(ctx, spec)
	}
	r.starting.Lock()
	defer r.starting.Unlock()
	beside, err := r.beside(ctx, spec.Beside)
	if err != nil {
		return err
	}
	if len(beside) >= workload.MaxBeside {
		return abi.NewError(abi.ResourceExhausted, fmt.Sprintf("%d workloads stand beside %s, which is the limit", workload.MaxBeside, spec.Beside))
	}
	if s, err := r.Inspect(ctx, spec.Beside); err == nil && (s.State != workload.Running || s.Beside != "") {
		return abi.NewError(abi.FailedPrecondition, fmt.Sprintf("workload %s has ended, or stands beside another itself", spec.Beside))
	}
	return r.Runtime.Start(ctx, spec)
}

// Destroy implements [workload.Runtime].
func (r *together) Destroy(ctx context.Context, id string) error {
	beside, err := r.beside(ctx, id)
	if err != nil {
		return err
	}
	for _, other := range append(beside, id) {
		if err := r.Runtime.Destroy(ctx, other); err != nil {
			return err
		}
	}
	return nil
}

// beside are the IDs of the workloads that stand beside one.
func (r *together) beside(ctx context.Context, id string) (ids []string, err error) {
	list, err := r.List(ctx)
	for _, s := range list {
		if s.Beside == id {
			ids = append(ids, s.ID)
		}
	}
	return ids, err
}
