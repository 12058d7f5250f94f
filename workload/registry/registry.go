// Package registry keeps a runtime's workloads by ID, from the moment that they
// are asked for until they are destroyed. What a workload is, it does not know.
// Start reading at [Registry].
package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// DefaultMax bounds how many workloads a runtime holds, running and ended: far
// above what a machine of a few gigabytes can run, and low enough that a driver that
// starts without end is stopped.
const DefaultMax = 20_000

// Workload is one entry. Its methods may be called concurrently.
type Workload interface {
	comparable
	ID() string
	// Done is closed when it has ended, or has failed to start.
	Done() <-chan struct{}
	// Status has no Exit, even when it is done, if it never started.
	Status() *workload.Status
	// Kill makes it end, however far its start is.
	Kill()
}

// Registry is a set of workloads. It is safe for concurrent use.
type Registry[W Workload] struct {
	maxCount int
	running  sync.WaitGroup

	mu        sync.Mutex
	workloads map[string]W
	closed    bool
}

// New returns an empty registry for maxCount workloads; 0 or less: [DefaultMax].
func New[W Workload](maxCount int) *Registry[W] {
	if maxCount <= 0 {
		maxCount = DefaultMax
	}
	return &Registry[W]{maxCount: maxCount, workloads: map[string]W{}}
}

// Add takes the workload's ID, so that two starts cannot have it. Each that was added
// is to be reported as ended once.
func (r *Registry[W]) Add(w W) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch _, exists := r.workloads[w.ID()]; {
	case r.closed:
		return abi.NewRecoverableError(abi.Unavailable, "the supervisor is shutting down")
	case exists:
		return abi.NewError(abi.AlreadyExists, fmt.Sprintf("workload %s exists", w.ID()))
	case len(r.workloads) >= r.maxCount:
		return abi.NewRecoverableError(abi.ResourceExhausted, fmt.Sprintf("workload %s: there are %d workloads, which is the limit", w.ID(), r.maxCount))
	}
	r.workloads[w.ID()] = w
	r.running.Add(1)
	return nil
}

// Ended notes that nothing of a workload runs any more.
func (r *Registry[W]) Ended() { r.running.Done() }

// Close refuses further workloads. It is idempotent.
func (r *Registry[W]) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// WaitAll waits until every workload has ended, after Close.
func (r *Registry[W]) WaitAll() { r.running.Wait() }

// Remove forgets a workload, unless its ID is another's by now.
func (r *Registry[W]) Remove(w W) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.workloads[w.ID()] == w {
		delete(r.workloads, w.ID())
	}
}

// Find returns the workload of that ID, or NOT_FOUND.
func (r *Registry[W]) Find(id string) (W, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.workloads[id]
	if !ok {
		return w, notFound(id)
	}
	return w, nil
}

func notFound(id string) error {
	return abi.NewError(abi.NotFound, fmt.Sprintf("workload %s does not exist", id))
}

// All returns the workloads in no order.
func (r *Registry[W]) All() []W {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]W, 0, len(r.workloads))
	for _, w := range r.workloads {
		all = append(all, w)
	}
	return all
}

// Wait implements the method of [workload.Runtime].
func (r *Registry[W]) Wait(ctx context.Context, id string) (*structs.ExitResult, error) {
	w, err := r.Find(id)
	if err != nil {
		return nil, err
	}
	select {
	case <-w.Done():
		if exit := w.Status().Exit; exit != nil {
			return exit, nil
		}
		return nil, notFound(id) // it never started
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Inspect implements the method of [workload.Runtime].
func (r *Registry[W]) Inspect(_ context.Context, id string) (*workload.Status, error) {
	w, err := r.Find(id)
	if err != nil {
		return nil, err
	}
	return w.Status(), nil
}

// List implements the method of [workload.Runtime].
func (r *Registry[W]) List(context.Context) ([]*workload.Status, error) {
	all := r.All()
	list := make([]*workload.Status, len(all))
	for i, w := range all {
		list[i] = w.Status()
	}
	slices.SortFunc(list, func(a, b *workload.Status) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), strings.Compare(a.ID, b.ID))
	})
	return list, nil
}

// Destroy implements the method of [workload.Runtime].
func (r *Registry[W]) Destroy(ctx context.Context, id string) error {
	w, err := r.Find(id)
	if err != nil {
		return nil // destroying is idempotent
	}
	w.Kill()
	select {
	case <-w.Done():
		r.Remove(w)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
