package alloc

import (
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// killing is the order in which a group's tasks end: after the group's shutdown delay
// the leader, then the main tasks with the prestart and poststart ones, then the
// sidecars. Poststop tasks are left to run after them. Each step begins when the one
// before is dead; nothing waits for it.
type killing struct {
	reason func(*nomad.Task) *structs.TaskEvent // nil: none
	// until is when the group's shutdown delay is over; zero: none.
	until time.Time
	// poststop tasks are killed too.
	poststop bool
}

// order is a task's turn in a kill.
func order(t *nomad.Task) int {
	switch {
	case stageOf(t) == poststop:
		return 3
	case sidecar(t):
		return 2
	case t.Leader:
		return 0
	}
	return 1
}

// nextToKill is the tasks whose turn it is to be killed.
func (k *killing) nextToKill(tasks []*nomad.Task, states map[string]*structs.TaskState, now time.Time) []*nomad.Task {
	if now.Before(k.until) {
		return nil
	}
	turns := 3
	if k.poststop {
		turns = 4
	}
	for turn := range turns {
		var out []*nomad.Task
		for _, t := range tasks {
			if order(t) == turn && states[t.Name].State != structs.TaskDead {
				out = append(out, t)
			}
		}
		if out != nil {
			return out
		}
	}
	return nil
}

// killCause is why the tasks' states alone end the group, with the event of each task;
// nil: they do not.
func killCause(tasks []*nomad.Task, states map[string]*structs.TaskState) *killing {
	var failed string
	var leaderDead, mainLive, sidecarLive bool
	for _, t := range tasks {
		s := states[t.Name]
		if stageOf(t) == poststop {
			continue
		}
		dead := s.State == structs.TaskDead
		switch {
		case dead && s.Failed && failed == "":
			failed = t.Name
		case dead && t.Leader && !s.Failed:
			leaderDead = true
		}
		if !dead && sidecar(t) {
			sidecarLive = true
		}
		if !dead && !sidecar(t) {
			mainLive = true
		}
	}
	switch {
	case failed != "":
		return &killing{reason: func(*nomad.Task) *structs.TaskEvent {
			return structs.NewTaskEvent(structs.EventSiblingFailed).WithFailedSibling(failed)
		}}
	case leaderDead:
		return &killing{reason: func(*nomad.Task) *structs.TaskEvent {
			return structs.NewTaskEvent(structs.EventLeaderDead)
		}}
	case sidecarLive && !mainLive:
		return &killing{reason: func(*nomad.Task) *structs.TaskEvent {
			return structs.NewTaskEvent(structs.EventMainDead)
		}}
	}
	return nil
}
