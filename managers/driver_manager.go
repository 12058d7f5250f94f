package managers

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// Workloads is what the host's own implementation of an operation needs of the
// supervisor of workloads; workload.Supervisor has it.
type Workloads interface {
	Wait(ctx context.Context, id string) (*structs.ExitResult, error)
	Stop(ctx context.Context, id string, signal string, timeout time.Duration) error
	Signal(ctx context.Context, id string, signal string) error
	Stats(ctx context.Context, id string) (*workload.Stats, error)
	Inspect(ctx context.Context, id string) (*workload.Status, error)
	Destroy(ctx context.Context, id string) error
}

// TaskEventHandler takes an event of one task. It must not block.
type TaskEventHandler func(*wasmnodev1.TaskEvent)

// DriverManagerConfig configures a [DriverManager].
type DriverManagerConfig struct {
	// Catalog is where the drivers come from; it is not started yet.
	Catalog   *Catalog
	Workloads Workloads
	Logger    hclog.Logger
	// PluginConfig returns the operator's configuration for the plugin of that
	// name, nil for none. Nil: there is none for any.
	PluginConfig func(name string) map[string]any
	// Updater is told of a driver's state when it has changed, and nil when the
	// node has lost the driver. Calls come one at a time, and must not block.
	Updater func(name string, info *structs.DriverInfo)
	// Events returns the handler for a task's events, or nil when nobody wants
	// them. Nil: nobody does.
	Events func(allocID, task string) TaskEventHandler
	// Allowed names the drivers that may be used; empty: all of them. Blocked
	// names those that may not, even when they are allowed.
	Allowed, Blocked []string
}

// DriverManager keeps the drivers in service and hands them out. Its methods may
// be called concurrently.
type DriverManager struct {
	cfg DriverManagerConfig
}

// NewDriverManager returns a manager that takes the catalog's drivers into
// service from the catalog's start on.
func NewDriverManager(cfg DriverManagerConfig) *DriverManager {
	return &DriverManager{cfg: cfg}
}

// Dispense returns the driver of that name in the version now in charge; the
// caller releases it. The error is an abi.Error: NOT_FOUND for a name that is not
// there or is blocked, and UNAVAILABLE and recoverable while the driver is loading
// or restarting.
func (m *DriverManager) Dispense(name string) (*Driver, error) {
	return nil, abi.NewError(abi.NotFound, "driver not found: "+name)
}

// WaitForFirstFingerprint returns when every file that was in the directory at the
// start has been loaded or refused, and every driver among them has answered its
// first fingerprint or failed it; or ctx's error.
func (m *DriverManager) WaitForFirstFingerprint(ctx context.Context) error { return ctx.Err() }

// Shutdown takes all drivers out of service and returns when no call of the
// manager's own runs. Drivers that were dispensed work until they are released.
// It may be called more than once.
func (m *DriverManager) Shutdown() {}
