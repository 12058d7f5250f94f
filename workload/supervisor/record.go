package supervisor

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// state is where a workload's record is.
type state int

const (
	stateStarting  state = iota // its start was asked for, and has not returned
	stateRunning                // it was started, and its result is not there yet
	stateEnded                  // its result is there: in a file, unless the disk did not take it
	stateRewriting              // as ended, while what the disk did not take is written again
	stateRemoving               // its result's file is being removed
	stateGone                   // the record is dropped, and its ID is free
)

// event moves a record from one state to another.
type event int

const (
	eventStarted event = iota
	eventNotStarted
	eventResult   // its result is written, or was tried to be
	eventNoResult // it was destroyed before its result could be had
	eventRewrite
	eventRewritten
	eventRemove
	eventRemoved
	eventNotRemoved
)

// transitions are all that there are. Whoever causes eventRewrite or eventRemove has the
// result's file to himself until the event that follows it.
var transitions = map[state]map[event]state{
	stateStarting:  {eventStarted: stateRunning, eventNotStarted: stateGone},
	stateRunning:   {eventResult: stateEnded, eventNoResult: stateGone},
	stateEnded:     {eventRewrite: stateRewriting, eventRemove: stateRemoving},
	stateRewriting: {eventRewritten: stateEnded},
	stateRemoving:  {eventRemoved: stateGone, eventNotRemoved: stateEnded},
}

// next returns the state after an event; not ok: the event cannot be now.
func (s state) next(e event) (_ state, ok bool) {
	to, ok := transitions[s][e]
	return to, ok
}

// hasResult reports whether a workload in that state has ended for its clients.
func (s state) hasResult() bool { return s == stateEnded || s == stateRewriting }

// record is what a server knows of a workload, from the moment that its start is asked
// for until nothing more is read or written of it. Its fields but id, run and beside are read and
// written under the lock of its [records].
type record struct {
	id      string
	run     uint64 // its number among all of this server; from 1
	beside  string // see [workload.Spec]
	state   state
	changed chan struct{}       // closed when the state changes, and replaced
	result  *workload.Status    // nil: there is none yet
	exit    *structs.ExitResult // nil: it is not known
	// unwritten: the disk did not take the result yet.
	unwritten bool
}

// records are those of all workloads that are not gone. The lock is never held over
// anything that waits.
type records struct {
	mu   sync.Mutex
	byID map[string]*record
	// beside are those that stand beside a workload, by its ID. It may not be there.
	beside map[string][]*record
	runs   uint64     // so far
	told   []*endings // of each that ends
}

// newRecords returns those of workloads whose results are there.
func newRecords(results []*workload.Status) *records {
	rs := &records{byID: map[string]*record{}, beside: map[string][]*record{}}
	for _, s := range results {
		rs.put(&record{id: s.ID, beside: s.Beside, state: stateEnded, changed: make(chan struct{}), result: s, exit: s.Exit})
	}
	return rs
}

// put makes a record known. The lock is held, or nobody else has the records yet.
func (rs *records) put(r *record) {
	rs.runs++
	r.run = rs.runs
	rs.byID[r.id] = r
	if r.beside != "" {
		rs.beside[r.beside] = append(rs.beside[r.beside], r)
	}
}

// drop makes a record unknown. The lock is held.
func (rs *records) drop(r *record) {
	delete(rs.byID, r.id)
	rest := slices.DeleteFunc(rs.beside[r.beside], func(other *record) bool { return other == r })
	if rs.beside[r.beside] = rest; len(rest) == 0 {
		delete(rs.beside, r.beside)
	}
}

// add returns a record for a workload that may stand beside another, or why it may not start.
func (rs *records) add(id, beside string, at state) (*record, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	switch other := rs.byID[beside]; {
	case rs.byID[id] != nil:
		return nil, abi.NewError(abi.AlreadyExists, fmt.Sprintf("workload %s exists", id))
	case beside == "":
	case other != nil && (other.beside != "" || other.state > stateRunning):
		return nil, abi.NewError(abi.FailedPrecondition, fmt.Sprintf("workload %s has ended, or stands beside another itself", beside))
	case len(rs.beside[beside]) >= workload.MaxBeside:
		return nil, abi.NewError(abi.ResourceExhausted, fmt.Sprintf("%d workloads stand beside %s, which is the limit", workload.MaxBeside, beside))
	}
	r := &record{id: id, beside: beside, state: at, changed: make(chan struct{})}
	rs.put(r)
	return r, nil
}

// adopt returns a record for a workload that runs; nil: there is one.
func (rs *records) adopt(id, beside string) *record {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.byID[id] != nil {
		return nil
	}
	r := &record{id: id, beside: beside, state: stateRunning, changed: make(chan struct{})}
	rs.put(r)
	return r
}

// standBeside returns the records of the workloads that stand beside one.
func (rs *records) standBeside(id string) []*record {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return slices.Clone(rs.beside[id])
}

// find returns the record of that ID; nil: there is none.
func (rs *records) find(id string) *record {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.byID[id]
}

// look returns a record's state, and what is closed when that changes.
func (rs *records) look(r *record) (state, <-chan struct{}) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return r.state, r.changed
}

// step moves a record on; false: the event cannot be now.
func (rs *records) step(r *record, e event) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.stepLocked(r, e)
}

func (rs *records) stepLocked(r *record, e event) bool {
	to, ok := r.state.next(e)
	if !ok {
		return false
	}
	r.state = to
	close(r.changed)
	r.changed = make(chan struct{})
	if to == stateGone {
		rs.drop(r)
	}
	if e == eventNotStarted || e == eventResult || e == eventNoResult {
		rs.tell(r)
	}
	return true
}

// end gives a running workload its result, and notes whether it is on disk.
func (rs *records) end(r *record, result *workload.Status, written bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.result, r.exit, r.unwritten = result, result.Exit, !written
	rs.stepLocked(r, eventResult)
}

// endWithout ends a running workload that was destroyed; exit is nil when it is not known.
func (rs *records) endWithout(r *record, exit *structs.ExitResult) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.exit = exit
	rs.stepLocked(r, eventNoResult)
}

// isUnwritten reports whether the disk has not taken the result of a workload that somebody
// may still ask for.
func (rs *records) isUnwritten(r *record) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return r.unwritten && r.state != stateGone
}

// unwritten is how many results there are that the disk has not taken.
func (rs *records) unwritten() (n int) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.byID {
		if r.unwritten {
			n++
		}
	}
	return n
}

// rewrite returns a record whose result is to be written again, until [records.rewritten];
// nil: there is none.
func (rs *records) rewrite() *record {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.byID {
		if r.unwritten && rs.stepLocked(r, eventRewrite) {
			return r
		}
	}
	return nil
}

// rewritten notes whether a result is on disk now.
func (rs *records) rewritten(r *record, written bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.unwritten = !written
	rs.stepLocked(r, eventRewritten)
}

// wait blocks until a workload has ended and its result is written, or none is to come.
func (rs *records) wait(ctx context.Context, r *record) (*structs.ExitResult, error) {
	for {
		switch now, changed := rs.look(r); now {
		case stateStarting, stateRunning:
			select {
			case <-changed:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		default:
			if r.exit == nil { // it does not change any more
				return nil, notFound(r.id)
			}
			return r.exit, nil
		}
	}
}

// result returns the result of an ended workload; nil: there is none.
func (rs *records) result(id string) *workload.Status {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.byID[id]; r != nil && r.state.hasResult() {
		return r.result
	}
	return nil
}

// resultsBut returns the results of workloads that are not in the list, the longest
// started first.
func (rs *records) resultsBut(list []*workload.Status) []*workload.Status {
	listed := map[string]bool{}
	for _, s := range list {
		listed[s.ID] = true
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	out := []*workload.Status{}
	for id, r := range rs.byID {
		if !listed[id] && r.state.hasResult() {
			out = append(out, r.result)
		}
	}
	slices.SortFunc(out, func(a, b *workload.Status) int { return a.StartedAt.Compare(b.StartedAt) })
	return out
}

// running returns the records of workloads that were started and have no result yet.
func (rs *records) running() (out []*record) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.byID {
		if r.state == stateRunning {
			out = append(out, r)
		}
	}
	return out
}

func notFound(id string) error {
	return abi.NewError(abi.NotFound, fmt.Sprintf("workload %s does not exist", id))
}
