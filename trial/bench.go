package trial

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/conform"
)

// Measured is what the calls of one operation took. Times are in nanoseconds in JSON.
type Measured struct {
	Op string
	// Cold is the first call, for which an instance is made and configured.
	Cold time.Duration
	// P50 and P99 are of the others, of which P50 took at most so long; zero: there was none.
	P50, P99 time.Duration
	Calls    int    // the cold one included
	Fuel     uint64 // how often all but the cold one were given fuel: each 50 µs of the plugin's code, about
	Memory   uint64 // that the instance has after the last call, in bytes
}

// measurement collects the calls of one operation.
type measurement struct {
	op     string
	took   []time.Duration
	fuel   uint64 // of all but the first
	memory uint64
}

func (m *measurement) measured() Measured {
	out := Measured{Op: m.op, Cold: m.took[0], Calls: len(m.took), Fuel: m.fuel, Memory: m.memory}
	if warm := slices.Sorted(slices.Values(m.took[1:])); len(warm) > 0 {
		out.P50, out.P99 = quantile(warm, 0.5), quantile(warm, 0.99)
	}
	return out
}

// quantile is the least of sorted times that a part of them does not exceed.
func quantile(sorted []time.Duration, part float64) time.Duration {
	return sorted[max(0, int(math.Ceil(part*float64(len(sorted))))-1)]
}

// bench measures operations of a trial.
type bench struct {
	t       *Trial
	calls   int
	results []*measurement
}

// Bench calls the plugin's operations, each so many times, and returns how long they took, in
// the order of a task's life. The plugin has been configured. Config is a task's config block,
// as [Trial.TaskConfig] returns it; nil: no task is started. Tasks have directories below dir.
// The error is the first that an operation answered.
func (t *Trial) Bench(ctx context.Context, dir string, calls int, config []byte) ([]Measured, error) {
	b := &bench{t: t, calls: calls}
	kind := string(t.plugin.Spec().Kind)
	for _, op := range []string{kind + "_describe", kind + "_fingerprint", abi.OpDeviceStats} {
		for range calls {
			if _, err := b.call(ctx, op, nil, nil); err != nil {
				return nil, err
			}
		}
	}
	if config != nil {
		for i := range calls {
			task, err := conform.Task(filepath.Join(dir, strconv.Itoa(i)), int64(i+1), config)
			if err != nil {
				return nil, err
			}
			if err := b.life(ctx, task); err != nil {
				return nil, err
			}
		}
	}
	var out []Measured
	for _, m := range b.results {
		out = append(out, m.measured())
	}
	return out, nil
}

// life measures the operations about one task.
func (b *bench) life(ctx context.Context, task *wasmnodev1.TaskConfig) error {
	defer b.t.workloads.Destroy(context.WithoutCancel(ctx), task.Id) //nolint:errcheck // the trial's end destroys what is left
	answer, err := b.call(ctx, abi.OpDriverStartTask, &wasmnodev1.DriverStartTaskRequest{Task: task}, task)
	if err != nil {
		return err
	}
	var started wasmnodev1.DriverStartTaskResponse
	if err := started.UnmarshalVT(answer); err != nil || started.Handle == nil {
		return fmt.Errorf("%s answers no handle", abi.OpDriverStartTask)
	}
	for _, step := range []struct {
		op      string
		request encoder
	}{
		{abi.OpDriverRecoverTask, &wasmnodev1.DriverRecoverTaskRequest{Task: task, Handle: started.Handle}},
		{abi.OpDriverInspectTask, &wasmnodev1.DriverInspectTaskRequest{TaskId: task.Id, Handle: started.Handle}},
		{abi.OpDriverTaskStats, &wasmnodev1.DriverTaskStatsRequest{TaskId: task.Id, Handle: started.Handle}},
		{abi.OpDriverStopTask, &wasmnodev1.DriverStopTaskRequest{TaskId: task.Id, Handle: started.Handle, TimeoutMs: 1000}},
		{abi.OpDriverDestroyTask, &wasmnodev1.DriverDestroyTaskRequest{TaskId: task.Id, Handle: started.Handle, Force: true}},
	} {
		if _, err := b.call(ctx, step.op, step.request, task); err != nil {
			return err
		}
	}
	return nil
}

// encoder is a request.
type encoder interface{ MarshalVT() ([]byte, error) }

// call measures one call. An operation that the plugin does not have, or leaves to the node, is
// not measured.
func (b *bench) call(ctx context.Context, op string, request encoder, task *wasmnodev1.TaskConfig) ([]byte, error) {
	if !b.t.plugin.Has(op) {
		return nil, nil
	}
	var encoded []byte
	if request != nil {
		var err error
		if encoded, err = request.MarshalVT(); err != nil {
			return nil, err
		}
	}
	i := slices.IndexFunc(b.results, func(m *measurement) bool { return m.op == op })
	if i < 0 {
		b.t.plugin.Grant(ctx, b.t.grants) // no instance from before is kept
	}
	r := b.t.Call(ctx, Call{Op: op, Request: encoded, Task: task})
	switch {
	case abi.CodeOf(r.Err) == abi.Unimplemented:
		return nil, nil
	case r.Err != nil:
		return nil, fmt.Errorf("%s: %w", op, r.Err)
	}
	if i < 0 {
		b.results, i = append(b.results, &measurement{op: op}), len(b.results)
	}
	m := b.results[i]
	if len(m.took) > 0 {
		m.fuel += r.Fuel
	}
	m.took, m.memory = append(m.took, r.Took), r.Memory
	return r.Answer, nil
}
