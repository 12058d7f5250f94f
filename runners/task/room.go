package task

import (
	"errors"
	"time"

	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/structs"
)

// roomTick is how often it is tried again to store something that a full disk did not take.
const roomTick = time.Second

// inRoom stores something, and tries again while the disk is full: that is no failure of the
// task, and costs it no attempt. It waits until the runner is interrupted, and shows that the
// task does not run meanwhile.
func (r *Runner) inRoom(store func() error) error {
	err := store()
	for told := false; errors.Is(err, boltfile.ErrFull); err = store() {
		if !told {
			told = true
			r.rec.update(func(s *status) bool {
				s.state.Append(structs.NewTaskEvent(structs.EventTaskSetup).WithMessage("Waiting for room on the node's disk"))
				s.state.Enter(structs.TaskPending, time.Now())
				return true
			})
		}
		if !sleep(r.active, roomTick) {
			return err
		}
	}
	return err
}

// leaves reports whether an error is that of a full disk under an agent that stops: the next
// one goes on from what is stored.
func (r *Runner) leaves(err error) bool {
	return errors.Is(err, boltfile.ErrFull) && r.shutdown.Err() != nil && r.killed.Err() == nil
}

// keepHandle makes the handle of a run durable that was started or found. When the agent
// stops before there is room for it, the next one finds the run by its start.
func (r *Runner) keepHandle(run *invocation) error {
	err := r.inRoom(func() error { return r.storeHandle(run) })
	if r.leaves(err) {
		return nil
	}
	return recoverable(err)
}
