package catalog

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/host"
)

// RegistryConfig configures a [Registry]. Catalog, Type, Logger, New and Changed are
// required.
type RegistryConfig struct {
	// Catalog is where the plugins come from; it is not started yet.
	Catalog *Catalog
	// Type is that of the plugins that the registry takes into service.
	Type   host.Kind
	Logger hclog.Logger
	// New returns what a plugin is beyond a [Unit], or why the node does not take it.
	New func(u *Unit) (Kind, error)
	// Changed is called with a name whose unit in charge may be another or in another state.
	// It must not block. No lock is held.
	Changed func(name string)
}

// Registry keeps the plugins of one type in service: of each name one version is in
// charge, and earlier ones stay while they are used. Its methods may be called
// concurrently.
type Registry struct {
	cfg RegistryConfig

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	orders   uint64           // given so far
	inCharge map[string]*Unit // by name
	units    map[*Unit]bool   // everything that is not closed
}

// NewRegistry returns a registry that takes the catalog's plugins of its type into
// service from the catalog's start on.
func NewRegistry(cfg RegistryConfig) *Registry {
	r := &Registry{cfg: cfg, inCharge: map[string]*Unit{}, units: map[*Unit]bool{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	cfg.Catalog.serve(r)
	return r
}

// Candidate is a loaded plugin that wants to be in service.
type Candidate struct {
	Plugin Plugin
	Grants host.Grants
	Config map[string]any // the operator's for the plugin, not yet checked
	File   string         // name
}

// Take brings a plugin up aside and puts it in charge of its name. It has to answer a
// fingerprint before when it replaces a version that works. When that fails the plugin is
// still the caller's.
func (r *Registry) Take(ctx context.Context, c Candidate, replaces bool) (*Unit, error) {
	u, err := newUnit(r, c)
	if err != nil {
		return nil, err
	}
	if err := u.bringUp(ctx, replaces); err != nil {
		return nil, err
	}
	if err := r.put(ctx, u); err != nil {
		return nil, err
	}
	r.cfg.Changed(u.name)
	return u, nil
}

// put puts a unit that was brought up in charge of its name.
func (r *Registry) put(ctx context.Context, u *Unit) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return ErrShutdown
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for other := range r.units {
		if other.name == u.name {
			other.replace()
		}
	}
	r.orders++
	u.order = r.orders
	r.units[u] = true
	r.inCharge[u.name] = u
	r.wg.Go(func() { u.run(r.ctx) })
	return nil
}

// Acquire returns the unit in charge of a name, with a reference; nil: there is none.
func (r *Registry) Acquire(name string) *Unit {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.inCharge[name]
	if u == nil || !u.Acquire() {
		return nil
	}
	return u
}

// Get returns the unit in charge of a name, nil for none.
func (r *Registry) Get(name string) *Unit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inCharge[name]
}

// All returns the units in charge, the first that was put in charge first.
func (r *Registry) All() []*Unit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sorted()
}

// sorted is All for a caller who holds mu.
func (r *Registry) sorted() []*Unit {
	return slices.SortedFunc(maps.Values(r.inCharge), func(a, b *Unit) int { return cmp.Compare(a.order, b.order) })
}

// Refresh has a plugin's fingerprint polled soon. It does not block.
func (r *Registry) Refresh(name string) {
	if u := r.Get(name); u != nil {
		u.Refresh()
	}
}

// Before returns the units in charge of other names that were put in charge before u,
// which need not be in charge itself.
func (r *Registry) Before(u *Unit) []*Unit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(r.sorted(), func(other *Unit) bool {
		return other.name == u.name || u.order > 0 && other.order > u.order
	})
}

// Announce calls Changed for a unit, if it is in charge.
func (r *Registry) Announce(u *Unit) {
	if r.Get(u.name) == u {
		r.cfg.Changed(u.name)
	}
}

// remove takes a unit off the node whose file is gone.
func (r *Registry) remove(u *Unit) {
	r.mu.Lock()
	inCharge := r.inCharge[u.name] == u
	if inCharge {
		delete(r.inCharge, u.name)
	}
	r.mu.Unlock()
	if inCharge {
		r.cfg.Changed(u.name)
	}
}

// drop releases the registry's reference to a unit. Closing a plugin waits for its calls,
// which no lock is held across. The caller holds mu.
func (r *Registry) drop(u *Unit) {
	if r.ctx.Err() == nil { // else shutdown does it
		r.wg.Go(u.leave)
	}
}

// forget drops a unit that is closed.
func (r *Registry) forget(u *Unit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.units, u)
}

// AwaitFirst returns when every file that was in the directory at the start has been
// loaded or refused, and every plugin of this type among them has answered its first
// fingerprint or failed to; or when enough, unless it is nil, reports that those in charge
// are all that is waited for; or ctx's error.
func (r *Registry) AwaitFirst(ctx context.Context, enough func() bool) error {
	for {
		changed := r.cfg.Catalog.changed()
		if enough != nil && enough() {
			return nil
		}
		select {
		case <-changed:
		case <-r.cfg.Catalog.files.first:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-r.ctx.Done():
			return ErrShutdown
		}
	}
}

// Stopped reports whether Shutdown has been called.
func (r *Registry) Stopped() bool { return r.ctx.Err() != nil }

// Shutdown takes all units out of service and returns when no call of the registry's own
// runs. Units that were acquired work until they are released. It may be called more than
// once.
func (r *Registry) Shutdown() {
	r.mu.Lock()
	r.cancel()
	all := r.units
	r.units, r.inCharge = map[*Unit]bool{}, map[string]*Unit{}
	r.mu.Unlock()
	for u := range all {
		u.leave()
	}
	r.wg.Wait()
}
