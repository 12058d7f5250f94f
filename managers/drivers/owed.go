package drivers

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/catalog/owed"
	"github.com/wasmnode/wasmnode/state"
)

// Store keeps what the driver manager has still to do when the agent ends. A [state.DB] is one.
type Store interface {
	// Drivers returns what was put last; nil: nothing was.
	Drivers() (*state.DriverState, error)
	PutDrivers(d *state.DriverState) error
}

// owedNetworks are the networks of allocations that drivers have not let go of when they were
// asked. They are asked until they have, by the next agent if need be; without a store that
// is forgotten with this one.
func owedNetworks(store Store, logger hclog.Logger) *owed.List[state.NetworkRelease] {
	cfg := owed.Config[state.NetworkRelease]{
		What: "removals of groups' networks", Logger: logger,
		Same: func(a, b state.NetworkRelease) bool { return a == b },
		Of:   func(r state.NetworkRelease) string { return r.Driver },
	}
	if store == nil {
		return owed.New(cfg)
	}
	cfg.Put = func(all []state.NetworkRelease) error { return store.PutDrivers(&state.DriverState{Owed: all}) }
	left, err := store.Drivers()
	switch {
	case err != nil:
		logger.Error("what an earlier agent could not have drivers remove of groups' networks is not known", "error", err)
	case left != nil:
		cfg.Left = left.Owed
	}
	return owed.New(cfg)
}

// DestroyNetwork has a driver let go of what [Driver.CreateNetwork] had it make for an
// allocation, if that is something. A driver that is not there, or cannot, is asked again when it
// works, by the next agent if need be.
//
// # Errors
//
// Why it has not been done yet: those of [Manager.Dispense], or the driver's own.
func (m *Manager) DestroyNetwork(ctx context.Context, driver, allocID string) error {
	d, err := m.Dispense(driver)
	if err == nil {
		defer d.Release()
		if err = d.destroyNetwork(ctx, allocID); err != nil {
			d.plugin.networks.Postpone()
		}
	}
	if err != nil {
		m.owed.Add(state.NetworkRelease{Driver: driver, AllocID: allocID})
	}
	return err
}

// Run implements [catalog.Kind]: it sees to networks that the driver has not let go of.
func (u *plugin) Run(ctx context.Context) {
	for ctx.Err() == nil {
		health, changed := u.Health()
		more := u.m.owed.More()
		next := time.Now().Add(catalog.MaxPollInterval)
		if down, _ := u.Down(); !down && !health.Over() {
			next = u.settle(ctx)
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-timer.C:
		case <-changed:
		case <-more:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// settle has the driver let go of what is owed, and returns when to try again.
func (u *plugin) settle(ctx context.Context) time.Time {
	if !u.Acquire() {
		return time.Now().Add(catalog.MaxPollInterval)
	}
	d := &Driver{plugin: u}
	defer d.Release()
	return u.m.owed.Settle(&u.networks,
		func(r state.NetworkRelease) bool { return r.Driver == u.Name() },
		func(r state.NetworkRelease) error { return d.destroyNetwork(ctx, r.AllocID) })
}
