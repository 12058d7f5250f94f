package managers

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"
)

// fleet keeps the plugins of one type in service: of each name one version is in
// charge, and earlier ones live on while somebody uses them.
type fleet struct {
	logger hclog.Logger
	// config returns the operator's configuration for a plugin; nil: there is none.
	config func(name string) map[string]any
	// changed is told of a name whose unit in charge may be another or in another state.
	// No lock is held. It must not block.
	changed func(name string)

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	orders   uint64           // given so far
	inCharge map[string]*unit // by name
	units    map[*unit]bool   // everything that is not closed
}

func (f *fleet) init() {
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.inCharge, f.units = map[string]*unit{}, map[*unit]bool{}
}

// take brings a unit up aside and puts it in charge of its name. Strictly, it has to
// answer a fingerprint before. When it fails the plugin is still the caller's.
func (f *fleet) take(ctx context.Context, u *unit, strictly bool) error {
	if err := u.bringUp(ctx, strictly); err != nil {
		return err
	}
	if err := f.put(ctx, u); err != nil {
		return err
	}
	f.changed(u.name)
	return nil
}

// put puts a unit that was brought up in charge of its name.
func (f *fleet) put(ctx context.Context, u *unit) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil {
		return errShutdown
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for other := range f.units {
		if other.name == u.name {
			other.replace()
		}
	}
	f.orders++
	u.order = f.orders
	f.units[u] = true
	f.inCharge[u.name] = u
	f.wg.Go(func() { u.run(f.ctx) })
	return nil
}

// acquire returns the unit in charge of a name, with a reference; nil: there is none.
func (f *fleet) acquire(name string) *unit {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.inCharge[name]
	if u == nil || !u.acquire() {
		return nil
	}
	return u
}

// get returns the unit in charge of a name, nil for none.
func (f *fleet) get(name string) *unit {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inCharge[name]
}

// all returns the units in charge, the first that was put in charge first.
func (f *fleet) all() []*unit {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sorted()
}

// sorted is all for a caller who holds mu.
func (f *fleet) sorted() []*unit {
	return slices.SortedFunc(maps.Values(f.inCharge), func(a, b *unit) int { return cmp.Compare(a.order, b.order) })
}

// refresh has a plugin's fingerprint polled soon. It does not block.
func (f *fleet) refresh(name string) {
	if u := f.get(name); u != nil {
		u.refresh()
	}
}

// before returns the units in charge of other names that were put in charge before u,
// which need not be in charge itself.
func (f *fleet) before(u *unit) []*unit {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(f.sorted(), func(other *unit) bool {
		return other.name == u.name || u.order > 0 && other.order > u.order
	})
}

// announce tells of a unit's state, if it is in charge.
func (f *fleet) announce(u *unit) {
	if f.get(u.name) == u {
		f.changed(u.name)
	}
}

// remove takes a unit off the node whose file is gone.
func (f *fleet) remove(u *unit) {
	f.mu.Lock()
	inCharge := f.inCharge[u.name] == u
	if inCharge {
		delete(f.inCharge, u.name)
	}
	f.mu.Unlock()
	if inCharge {
		f.changed(u.name)
	}
}

// dismiss gives up the fleet's hold on a unit. Closing a plugin waits for its calls,
// which no lock is held across. The caller holds mu.
func (f *fleet) dismiss(u *unit) {
	if f.ctx.Err() == nil { // else shutdown does it
		f.wg.Go(u.leave)
	}
}

// forget drops a unit that is closed.
func (f *fleet) forget(u *unit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.units, u)
}

// awaitFirst returns when every file that was in the directory at the start has been
// loaded or refused, and every plugin of this type among them has answered its first
// fingerprint or failed to; or ctx's error.
func (f *fleet) awaitFirst(ctx context.Context, c *Catalog) error {
	select {
	case <-c.first:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-f.ctx.Done():
		return errShutdown
	}
}

// shutdown takes all units out of service. The caller waits for wg.
func (f *fleet) shutdown() {
	f.mu.Lock()
	f.cancel()
	all := f.units
	f.units, f.inCharge = map[*unit]bool{}, map[string]*unit{}
	f.mu.Unlock()
	for u := range all {
		u.leave()
	}
}
