package host

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
)

// programTable bounds how many programs of a plugin run at once. It counts by the
// plugin's name, so that a reload does not begin again, and by what the runtime reports
// that runs, so that a restart of the agent does not either. A program has its place
// from before its start. The zero value is ready; it is safe for concurrent use, and
// holds no lock while it asks the runtime.
type programTable struct {
	mu       sync.Mutex
	clock    uint64 // orders starts and listings
	listed   uint64 // when the listing began that was taken over last
	programs map[string]programEntry
}

// programEntry is a program that runs or starts, by the ID of its workload.
type programEntry struct {
	owner string // the plugin
	seen  uint64 // when it was last known to run, or starting
}

// starting is later than every listing: none can contain such a program yet.
const starting = math.MaxUint64

// start starts a workload, unless limit of its owner's run already; 0: no limit here.
func (t *programTable) start(ctx context.Context, runtime workload.Runtime, spec *workload.Spec, limit int) error {
	if limit == 0 {
		return runtime.Start(ctx, spec)
	}
	began := t.tick()
	list, err := runtime.List(ctx)
	if err != nil {
		return err
	}
	if err := t.reserve(began, list, spec, limit); err != nil {
		return err
	}
	err = runtime.Start(ctx, spec)
	t.settle(spec, err)
	return err
}

// tick returns the time by the table's own clock.
func (t *programTable) tick() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clock++
	return t.clock
}

// reserve gives a program a place, unless all are taken. The list is the runtime's, asked
// for at the time began.
func (t *programTable) reserve(began uint64, list []*workload.Status, spec *workload.Spec, limit int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.takeOver(began, list)
	if t.programs[spec.ID].seen == starting {
		return abi.NewError(abi.AlreadyExists, fmt.Sprintf("workload %s is being started", spec.ID))
	}
	running := 0
	for id, p := range t.programs {
		if p.owner == spec.Owner && id != spec.ID {
			running++
		}
	}
	if running >= limit {
		return abi.NewRecoverableError(abi.ResourceExhausted, fmt.Sprintf(
			"the plugin has %d programs running, which is what its grant allows (wasm.max_programs)", running))
	}
	t.programs[spec.ID] = programEntry{spec.Owner, starting}
	return nil
}

// takeOver makes the table what a listing contains, but for what was started since it began.
// One that is older than another that was taken over already has no effect. The caller
// holds mu.
func (t *programTable) takeOver(began uint64, list []*workload.Status) {
	if began < t.listed {
		return
	}
	t.listed = began
	programs := map[string]programEntry{}
	for id, p := range t.programs {
		if p.seen > began {
			programs[id] = p
		}
	}
	for _, s := range list {
		p, known := t.programs[s.ID]
		if !known {
			p.owner = s.Owner // a supervisor of an earlier version knows none
		}
		switch {
		case s.State == workload.Running && p.owner != "":
			programs[s.ID] = programEntry{p.owner, max(p.seen, began)}
		case s.State == workload.Exited && p.seen != starting:
			delete(programs, s.ID)
		}
	}
	t.programs = programs
}

// settle records the outcome of a start. A program that failed to start gives its place back.
func (t *programTable) settle(spec *workload.Spec, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && abi.CodeOf(err) != abi.AlreadyExists {
		delete(t.programs, spec.ID)
		return
	}
	t.clock++
	t.programs[spec.ID] = programEntry{spec.Owner, t.clock}
}
