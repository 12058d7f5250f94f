package task

import (
	"context"
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// statsAge is how old statistics may be before the driver is asked again. They are
// measured when they are read: a task whose statistics are not read costs nothing.
const statsAge = time.Second

// statsTimeout bounds one measurement.
const statsTimeout = 5 * time.Second

// Usage is what a task uses, with the measurement before it, from which a rate can be
// computed.
type Usage struct {
	Now    *wasmnodev1.TaskStats
	Before *wasmnodev1.TaskStats // nil: Now is the first
}

// usage keeps the last two measurements of an invocation.
type usage struct {
	mu   sync.Mutex
	id   string // the invocation
	at   time.Time
	last Usage
}

// Stats measures what the task uses. The values are read-only. It is [ErrNotRunning]
// when the task does not run.
func (r *Runner) Stats(ctx context.Context) (Usage, error) {
	run := r.running()
	if run == nil {
		return Usage{}, ErrNotRunning
	}
	if u, fresh := r.usage.fresh(run); fresh {
		return u, nil
	}
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	stats, err := call(ctx, "task stats", func(ctx context.Context) (*wasmnodev1.TaskStats, error) {
		return run.driver.TaskStats(ctx, run.config, run.handle)
	}, nil)
	if err != nil {
		return Usage{}, err
	}
	return r.usage.put(run, stats), nil
}

func (u *usage) fresh(run *invocation) (Usage, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.last, u.id == run.config.GetId() && time.Since(u.at) < statsAge
}

func (u *usage) put(run *invocation, stats *wasmnodev1.TaskStats) Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.id != run.config.GetId() {
		u.last = Usage{}
	}
	u.id, u.at = run.config.GetId(), time.Now()
	u.last = Usage{Now: stats, Before: u.last.Now}
	return u.last
}
