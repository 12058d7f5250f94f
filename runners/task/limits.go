package task

import (
	"time"

	"github.com/wasmnode/wasmnode/runners/artifact"
	"github.com/wasmnode/wasmnode/runners/template"
)

// DefaultDriverWait is [Limits].DriverWait where it is not set.
const DefaultDriverWait = 30 * time.Second

// Limits bound what a task runner waits for. A zero field means its default, never
// "unlimited".
type Limits struct {
	// MaxKillTimeout caps a task's kill_timeout; default [DefaultMaxKillTimeout].
	MaxKillTimeout time.Duration
	// KillGrace is what a kill takes on top of the kill timeout at most, whatever the
	// driver does; default 5 s. In the first part the driver may still stop the task, in
	// the rest the task is destroyed by force.
	KillGrace time.Duration
	// DriverWait is how long a task waits for a driver that is restarting or not there,
	// once the node's plugins are loaded; then the restart policy decides. Default [DefaultDriverWait].
	DriverWait time.Duration
	// StartTimeout bounds a start, in which a driver may fetch an image. Default 15 min.
	StartTimeout time.Duration
	// CallTimeout bounds calls that have no time limit of their own: recover, destroy,
	// signal. Default 2 min.
	CallTimeout time.Duration
	// Artifact bounds each download of an artifact, with its own defaults.
	Artifact artifact.Limits
	// Templates is what the node says of all templates.
	Templates template.Limits
}

// DefaultMaxKillTimeout is Nomad's max_kill_timeout.
const DefaultMaxKillTimeout = 30 * time.Second

// disposeGrace is the part of KillGrace in which a task is destroyed by force.
func (l Limits) disposeGrace() time.Duration { return l.KillGrace * 2 / 5 }

// stopGrace is the part of KillGrace in which a driver may still stop its task.
func (l Limits) stopGrace() time.Duration { return l.KillGrace - l.disposeGrace() }

func (l Limits) withDefaults() Limits {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&l.MaxKillTimeout, DefaultMaxKillTimeout)
	set(&l.KillGrace, 5*time.Second)
	set(&l.DriverWait, DefaultDriverWait)
	set(&l.StartTimeout, 15*time.Minute)
	set(&l.CallTimeout, 2*time.Minute)
	return l
}
