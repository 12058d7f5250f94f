package alloc

import (
	"context"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/internal/tracing"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/runners/template"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// Config configures what to run and with what. All fields but those marked optional are
// required.
type Config struct {
	// Alloc is the allocation as the control plane sent it. Its owner has made it
	// durable already.
	Alloc *structs.Allocation
	// Node returns the node as it is now; read-only.
	Node func() *structs.Node
	// AllocsDir is the directory of all allocations' directories.
	AllocsDir string
	State     state.DB
	Dispense  task.Dispense
	// Devices has devices reserved for the tasks; optional: there are none.
	Devices task.Devices
	// HostEnv is what tasks that are processes of the machine have of its environment;
	// optional, read-only.
	HostEnv map[string]string
	// Traces are of tasks that are started; optional.
	Traces *tracing.Tracer
	// SecretsInMemory has the tasks' secrets directories be in memory; otherwise they are on
	// the disk.
	SecretsInMemory bool
	// Left is what outlived the last agent; optional: that is not known.
	Left task.Left
	// Heard is closed when the control plane has said what is to run since the agent began, and the
	// runner has that by Update; optional: see [task.Config].
	Heard <-chan struct{}
	// StateUpdated is called with every new state, one call at a time. It must not
	// block and must not call back into the runner. The state is read-only.
	StateUpdated func(*structs.AllocationState)
	// Services registers the group's and the tasks' services; optional: nothing does.
	Services Services
	// Lookup has the services that templates look up; optional: none can.
	Lookup template.Services
	// Variables has the variables that templates read; optional: none can.
	Variables template.Variables
	// Identities signs the tokens of tasks; optional: they are given none.
	Identities task.Identities
	// API serves the node's API to tasks; optional: they have no socket of it.
	API task.API
	// ReservedCores returns the cores that tasks of this node have reserved; optional: none have.
	ReservedCores func() []int
	// Networks gives an allocation a network of its own whose group asks for one; optional:
	// such an allocation fails.
	Networks Networks
	// DestroyNetwork has a driver let go of what it made for an allocation's network, and asks it
	// again later when it fails; optional: drivers make nothing.
	DestroyNetwork func(ctx context.Context, driver, allocID string) error
	// Watcher is waited for before anything runs; optional: nothing to wait for.
	Watcher Watcher
	Logger  hclog.Logger // optional
	// Limits of the task runners; zero values mean the defaults.
	Limits task.Limits
	// Jitter stretches restart delays; optional: by up to a quarter.
	Jitter func(time.Duration) time.Duration
}

// Services has others find the services of allocations. What was asked for last counts, also
// where it cannot be done at once. Its methods may be called concurrently.
type Services interface {
	// Register makes a list all that an owner has registered. It does not wait.
	Register(owner structs.ServiceOwner, services []*structs.ServiceRegistration)
	// Deregister leaves an owner nothing, and returns when nobody finds it any more, or with
	// ctx's error.
	Deregister(ctx context.Context, owner structs.ServiceOwner) error
}

// Networks gives allocations networks of their own, as package network does.
type Networks interface {
	// Up gives an allocation its network, or returns the one that it has already. Create
	// makes its namespace where there is none; nil: it is the node's to make.
	Up(ctx context.Context, a *structs.Allocation, create func(context.Context) (*os.File, error)) (*structs.AllocNetwork, error)
	// Down takes it away; that there is none is not an error.
	Down(ctx context.Context, a *structs.Allocation) error
}

// Watcher is what must have ended before an allocation may start: the one it
// replaces, and those that were preempted for it.
type Watcher interface {
	// Wait returns when all have ended, or with ctx's error. Tell is called with what is
	// waited for and was not known before.
	Wait(ctx context.Context, tell func(what string)) error
	// Migrate takes over the previous allocation's data if the group asks for that.
	// An error but ctx's means: start with an empty disk. Told is what the tasks' events are to
	// say of what was taken; empty: nothing.
	Migrate(ctx context.Context, to *allocdir.Dir, tasks []string) (told string, err error)
	// Waiting gets what is waited for, for people; empty: nothing.
	Waiting() string
}

// NoWatcher is the [Watcher] of an allocation that has nothing to wait for.
type NoWatcher struct{}

// Wait returns at once.
func (NoWatcher) Wait(context.Context, func(string)) error { return nil }

// Migrate does nothing.
func (NoWatcher) Migrate(context.Context, *allocdir.Dir, []string) (string, error) { return "", nil }

// Waiting is always empty.
func (NoWatcher) Waiting() string { return "" }

// migrateTimeout bounds the hand-over of a disk: on one machine it is renames, from another one it is what a
// network carries of a large disk.
const migrateTimeout = 12 * time.Hour
