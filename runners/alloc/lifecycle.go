package alloc

import (
	"sync"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// stage is a task's place in the order of the group's tasks.
type stage int

// The stages, in their order. Tasks of a stage start together.
const (
	prestart stage = iota
	mainTask
	poststart
	poststop
	stages
)

// stageOf is a task's stage.
func stageOf(t *nomad.Task) stage {
	if t.Lifecycle == nil {
		return mainTask
	}
	switch t.Lifecycle.Hook {
	case nomad.TaskLifecycleHookPrestart:
		return prestart
	case nomad.TaskLifecycleHookPoststart:
		return poststart
	case nomad.TaskLifecycleHookPoststop:
		return poststop
	}
	return mainTask
}

// sidecar reports whether a task is to run beside the main ones for as long as they do.
func sidecar(t *nomad.Task) bool { return t.Lifecycle != nil && t.Lifecycle.Sidecar }

// lifecycle opens each stage's gate when its time has come: prestart tasks at once; main
// tasks when the prestart ones have succeeded and their sidecars run; poststart tasks
// when no main task is pending; poststop tasks when all others are dead. What is open
// stays open until a restart of the whole group.
type lifecycle struct {
	tasks map[string]*nomad.Task

	mu    sync.Mutex
	gates [stages]chan struct{}
	open  [stages]bool
	// restarting: a restart of the group waits for all tasks to be back at their gates.
	restarting bool
}

func newLifecycle(tasks []*nomad.Task) *lifecycle {
	l := &lifecycle{tasks: make(map[string]*nomad.Task, len(tasks))}
	for _, t := range tasks {
		l.tasks[t.Name] = t
	}
	for s := range l.gates {
		l.gates[s] = make(chan struct{})
	}
	return l
}

// gate is closed while a task of the stage may start.
func (l *lifecycle) gate(s stage) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gates[s]
}

// restart closes all gates until every task is back at its own.
func (l *lifecycle) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.restarting = true
	for s := range l.gates {
		if l.open[s] {
			l.open[s], l.gates[s] = false, make(chan struct{})
		}
	}
}

// step opens what the tasks' states allow to be open.
func (l *lifecycle) step(states map[string]*structs.TaskState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.restarting {
		for name, s := range states {
			if stageOf(l.tasks[name]) != poststop && s.State != structs.TaskPending {
				return
			}
		}
		l.restarting = false
	}
	for s := range stages {
		if !l.open[s] && l.ready(s, states) {
			l.open[s] = true
			close(l.gates[s])
		}
	}
}

func (l *lifecycle) ready(s stage, states map[string]*structs.TaskState) bool {
	switch s {
	case prestart:
		return true
	case mainTask:
		return l.all(states, prestart, func(t *nomad.Task, s *structs.TaskState) bool {
			return s.Successful() || sidecar(t) && !s.StartedAt.IsZero()
		})
	case poststart:
		return l.open[mainTask] && l.all(states, mainTask, func(_ *nomad.Task, s *structs.TaskState) bool {
			return s.State != structs.TaskPending
		})
	}
	for name, s := range states {
		if stageOf(l.tasks[name]) != poststop && s.State != structs.TaskDead {
			return false
		}
	}
	return true
}

// all reports whether a stage's tasks all are as asked.
func (l *lifecycle) all(states map[string]*structs.TaskState, of stage, is func(*nomad.Task, *structs.TaskState) bool) bool {
	for name, s := range states {
		if t := l.tasks[name]; stageOf(t) == of && !is(t, s) {
			return false
		}
	}
	return true
}
