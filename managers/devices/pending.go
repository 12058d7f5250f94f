package devices

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// Store keeps what the device manager has still to do when the agent ends. A
// [state.DB] is one.
type Store interface {
	// Devices returns what was put last; nil: nothing was.
	Devices() (*state.DeviceState, error)
	PutDevices(d *state.DeviceState) error
}

// maxPendingReleases bounds the releases that wait for plugins to work again; the oldest
// are dropped.
const maxPendingReleases = 1024

// pendingReleases are releases that failed. They are tried until they succeed, by the next
// agent if need be. Its methods may be called concurrently.
type pendingReleases struct {
	store  Store // nil: they are forgotten with the agent
	logger hclog.Logger

	mu      sync.Mutex
	list    []*pendingRelease // the oldest first
	added   chan struct{}     // closed and replaced whenever one is added
	changes uint64            // of list
	saved   uint64            // changes that the last write had
	writing chan struct{}     // closed when the write that goes on has ended; nil: none does
}

type pendingRelease struct {
	state.DeviceRelease
	trying chan struct{} // closed when the try that goes on has ended; nil: none goes on
}

// init reads what an earlier agent left.
func (p *pendingReleases) init(store Store, logger hclog.Logger) {
	p.store, p.logger, p.added = store, logger, make(chan struct{})
	if store == nil {
		return
	}
	left, err := store.Devices()
	switch {
	case err != nil:
		logger.Error("the devices that an earlier agent could not release are not known", "error", err)
	case left != nil:
		for _, r := range left.Owed {
			p.list = append(p.list, &pendingRelease{DeviceRelease: r})
		}
	}
}

// add owes a release, durably, unless it is owed already.
func (p *pendingReleases) add(r state.DeviceRelease) {
	p.mu.Lock()
	if !slices.ContainsFunc(p.list, func(other *pendingRelease) bool { return other.same(r.Devices, r.User) }) {
		p.list = append(p.list, &pendingRelease{DeviceRelease: r})
	}
	tooMany := len(p.list) - maxPendingReleases
	if tooMany > 0 {
		p.list = slices.Clone(p.list[tooMany:])
	}
	p.changes++
	close(p.added)
	p.added = make(chan struct{})
	p.mu.Unlock()
	if tooMany > 0 {
		p.logger.Warn("too many releases of devices fail; the oldest are dropped", "limit", maxPendingReleases)
	}
	p.save()
}

// same reports whether it is the release of a user's devices of that group: a user has
// one reservation of a group.
func (r *pendingRelease) same(d structs.AllocatedDevice, user structs.DeviceUser) bool {
	return r.Devices.Group() == d.Group() && r.User == user
}

// more is closed when a release has been added.
func (p *pendingReleases) more() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.added
}

// begin returns the oldest release of one of some groups, for a try; nil: there is none.
// Each is followed by an end.
func (p *pendingReleases) begin(groups index) *pendingRelease {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.list {
		if r.trying == nil && groups[r.Devices.Group()] != nil {
			r.trying = make(chan struct{})
			return r
		}
	}
	return nil
}

// end records the outcome of a try.
func (p *pendingReleases) end(r *pendingRelease, released bool) {
	p.mu.Lock()
	close(r.trying)
	r.trying = nil
	if released {
		p.remove(r)
	}
	p.mu.Unlock()
	if released {
		p.save()
	}
}

// remove drops a release. The caller holds mu.
func (p *pendingReleases) remove(r *pendingRelease) {
	p.list = slices.DeleteFunc(p.list, func(other *pendingRelease) bool { return other == r })
	p.changes++
}

// forget drops what is owed of a user's devices that are about to be reserved for it
// again: the late release would end the new reservation. It waits for a try that goes
// on. The error is an abi.Error: UNAVAILABLE and recoverable.
func (p *pendingReleases) forget(ctx context.Context, d structs.AllocatedDevice, user structs.DeviceUser) error {
	for {
		dropped, trying := p.drop(d, user)
		if dropped {
			p.save()
		}
		if trying == nil {
			return nil
		}
		select {
		case <-trying:
		case <-ctx.Done():
			return abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("an earlier reservation of device %s is still being released", d.Group()))
		}
	}
}

// drop removes what is owed of a user's devices, or returns what is closed when a try of
// it that goes on has ended.
func (p *pendingReleases) drop(d structs.AllocatedDevice, user structs.DeviceUser) (dropped bool, trying <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.list, func(r *pendingRelease) bool { return r.same(d, user) })
	if i < 0 {
		return false, nil
	}
	if r := p.list[i]; r.trying != nil {
		return false, r.trying
	}
	p.list = slices.Delete(p.list, i, i+1)
	p.changes++
	return true, nil
}

// save makes what is owed durable: it returns when a write has had all changes until now.
// One write goes on at a time, with no lock held. What cannot be written is still tried by
// this agent.
func (p *pendingReleases) save() {
	if p.store == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for wanted := p.changes; p.saved < wanted; {
		if writing := p.writing; writing != nil {
			p.mu.Unlock()
			<-writing
			p.mu.Lock()
			continue
		}
		p.write()
	}
}

// write writes what is owed now. The caller holds mu, which is not held meanwhile.
func (p *pendingReleases) write() {
	s := &state.DeviceState{}
	for _, r := range p.list {
		s.Owed = append(s.Owed, r.DeviceRelease)
	}
	changes, written := p.changes, make(chan struct{})
	p.writing = written
	p.mu.Unlock()
	if err := p.store.PutDevices(s); err != nil {
		p.logger.Error("the devices that have to be released would be forgotten with this agent", "error", err)
	}
	p.mu.Lock()
	p.saved, p.writing = changes, nil
	close(written)
}

// settle tries what is owed of the plugin's devices, when it is due, up to the first
// that fails, and returns when to try again.
func (u *plugin) settle(ctx context.Context) time.Time {
	if !u.Acquire() {
		return time.Now().Add(catalog.MaxPollInterval)
	}
	defer u.Release()
	for {
		u.mu.Lock()
		due, groups := u.releasesDue, u.index
		u.mu.Unlock()
		if time.Now().Before(due) {
			return due
		}
		r := u.m.pending.begin(groups)
		if r == nil {
			return time.Now().Add(catalog.MaxPollInterval)
		}
		err := u.sendRelease(ctx, r.Devices, r.User)
		u.m.pending.end(r, err == nil)
		u.mu.Lock()
		if err == nil {
			u.releaseFailures = 0
		} else {
			u.releaseFailures++
			u.releasesDue = time.Now().Add(catalog.Backoff(catalog.RetryPause, catalog.MaxRetryPause, u.releaseFailures))
		}
		u.mu.Unlock()
	}
}

// postponeReleases notes that a release has failed that was not pending yet.
func (u *plugin) postponeReleases() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.releasesDue = time.Now().Add(catalog.Backoff(catalog.RetryPause, catalog.MaxRetryPause, u.releaseFailures+1))
}
