package drivers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/catalog/owed"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// Workloads is what the host's own implementation of an operation needs of the
// supervisor of workloads; [workload.Runtime] has it.
type Workloads interface {
	Wait(ctx context.Context, id string) (*structs.ExitResult, error)
	Stop(ctx context.Context, id string, signal string, timeout time.Duration) error
	Signal(ctx context.Context, id string, signal string) error
	Exec(ctx context.Context, id string, spec *workload.ExecSpec) (*structs.ExitResult, error)
	Stats(ctx context.Context, id string) (*workload.Stats, error)
	Inspect(ctx context.Context, id string) (*workload.Status, error)
	Destroy(ctx context.Context, id string) error
}

// Config configures a [Manager]. Catalog, Workloads and Logger
// are required.
type Config struct {
	// Catalog is where the drivers come from; it is not started yet.
	Catalog   *catalog.Catalog
	Workloads Workloads
	Logger    hclog.Logger
	// Updater gets a driver's state when it has changed, and nil when the
	// node has lost the driver. Calls come one at a time, in order.
	Updater func(name string, info *structs.DriverInfo)
	// Store keeps what drivers have still to let go of; optional: it is forgotten with the agent.
	Store Store
}

// Manager keeps the drivers in service and hands them out. Its methods may
// be called concurrently.
type Manager struct {
	cfg       Config
	tasks     tasks
	owed      *owed.List[state.NetworkRelease]
	announcer *catalog.Announcer[*structs.DriverInfo]
	registry  *catalog.Registry
}

// New returns a manager that takes the catalog's drivers into
// service from the catalog's start on.
func New(cfg Config) *Manager {
	m := &Manager{cfg: cfg, tasks: tasks{byID: map[string]*task{}}, owed: owedNetworks(cfg.Store, cfg.Logger)}
	m.announcer = catalog.NewAnnouncer(m.info, cfg.Updater)
	m.registry = catalog.NewRegistry(catalog.RegistryConfig{
		Catalog: cfg.Catalog, Type: host.KindDriver, Logger: cfg.Logger,
		New: m.newPlugin, Changed: m.announcer.Changed,
	})
	return m
}

// info returns the state of the driver of that name, nil for none.
func (m *Manager) info(name string) *structs.DriverInfo {
	u := m.registry.Get(name)
	if u == nil {
		return nil
	}
	return pluginOf(u).info()
}

// Dispense returns the driver of that name in the version now in charge; the
// caller releases it.
//
// # Errors
//
// The error is an abi.Error: NOT_FOUND for a name that is not there or not allowed;
// UNAVAILABLE and recoverable while plugins are loading, while this one is
// restarting or quarantined, and after Shutdown; FAILED_PRECONDITION while it cannot
// be configured.
func (m *Manager) Dispense(name string) (*Driver, error) {
	u := m.registry.Acquire(name)
	if u == nil {
		if m.registry.Stopped() {
			return nil, abi.NewRecoverableError(abi.Unavailable, catalog.ErrShutdown.Error())
		}
		if m.cfg.Catalog.Expects(host.KindDriver, name) {
			m.cfg.Catalog.Want(name)
			return nil, loadingError{abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("driver %q is not there yet: plugins are still loading", name))}
		}
		return nil, abi.NewError(abi.NotFound, fmt.Sprintf("driver %q not found: %s", name, m.cfg.Catalog.Missing(host.KindDriver, name)))
	}
	if err := u.Usable(); err != nil {
		u.Release()
		return nil, err
	}
	return &Driver{plugin: pluginOf(u)}, nil
}

// loadingError is that of a driver whose plugin may be among those that are being loaded.
type loadingError struct{ error }

// Unwrap returns what it says.
func (e loadingError) Unwrap() error { return e.error }

// Loading tells who waits for the driver that its time has not begun.
func (loadingError) Loading() bool { return true }

// WaitForFirstFingerprint returns when every file that was in the directory at the
// start has been loaded or refused, every driver among them has answered its first
// fingerprint or failed to, and the updater has got it; or ctx's error.
func (m *Manager) WaitForFirstFingerprint(ctx context.Context) error {
	if err := m.registry.AwaitFirst(ctx, nil); err != nil {
		return err
	}
	return m.announcer.Flush(ctx)
}

// WaitForDriver returns when the driver of that name has answered its first fingerprint or
// failed to, or when no file that is being loaded may be it; or ctx's error.
func (m *Manager) WaitForDriver(ctx context.Context, name string) error {
	return m.registry.AwaitFirst(ctx, func() bool { return m.registry.Get(name) != nil || !m.cfg.Catalog.Expects(host.KindDriver, name) })
}

// Refresh has a driver's fingerprint polled soon. It does not block.
func (m *Manager) Refresh(plugin string) { m.registry.Refresh(plugin) }

// Shutdown takes all drivers out of service and returns when no call of the
// manager's own runs. Drivers that were dispensed work until they are released.
// It may be called more than once.
func (m *Manager) Shutdown() {
	m.announcer.Stop()
	m.registry.Shutdown()
}

// Permission is which drivers an operator has a node use.
type Permission struct {
	Allowed []string // empty: all
	Blocked []string // even when they are allowed
}

// Refuse returns why a driver of that name may not be used, in one line; "": it may.
func (p Permission) Refuse(name string) string {
	switch {
	case slices.Contains(p.Blocked, name):
		return fmt.Sprintf("driver %q is blocked by this node's configuration", name)
	case len(p.Allowed) > 0 && !slices.Contains(p.Allowed, name):
		return fmt.Sprintf("driver %q is not among those that this node's configuration allows", name)
	}
	return ""
}
