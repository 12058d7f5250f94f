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

// maxOwedReleases bounds the releases that wait for plugins to work again; the oldest
// are given up.
const maxOwedReleases = 1024

// owedReleases are releases that failed. They are tried until they succeed, by the next
// agent if need be. Its methods may be called concurrently.
type owedReleases struct {
	store  Store // nil: they are forgotten with the agent
	logger hclog.Logger

	mu      sync.Mutex
	list    []*owedRelease // the oldest first
	added   chan struct{}  // closed and replaced whenever one is added
	changes uint64         // of list
	saved   uint64         // changes that the last write had
	writing chan struct{}  // closed when the write that goes on has ended; nil: none does
}

type owedRelease struct {
	state.DeviceRelease
	trying chan struct{} // closed when the try that goes on has ended; nil: none goes on
}

// init reads what an earlier agent left.
func (o *owedReleases) init(store Store, logger hclog.Logger) {
	o.store, o.logger, o.added = store, logger, make(chan struct{})
	if store == nil {
		return
	}
	left, err := store.Devices()
	switch {
	case err != nil:
		logger.Error("the devices that an earlier agent could not release are not known", "error", err)
	case left != nil:
		for _, r := range left.Owed {
			o.list = append(o.list, &owedRelease{DeviceRelease: r})
		}
	}
}

// add owes a release, durably, unless it is owed already.
func (o *owedReleases) add(r state.DeviceRelease) {
	o.mu.Lock()
	if !slices.ContainsFunc(o.list, func(other *owedRelease) bool { return other.same(r.Devices, r.User) }) {
		o.list = append(o.list, &owedRelease{DeviceRelease: r})
	}
	tooMany := len(o.list) - maxOwedReleases
	if tooMany > 0 {
		o.list = slices.Clone(o.list[tooMany:])
	}
	o.changes++
	close(o.added)
	o.added = make(chan struct{})
	o.mu.Unlock()
	if tooMany > 0 {
		o.logger.Warn("too many releases of devices fail; the oldest are given up", "limit", maxOwedReleases)
	}
	o.save()
}

// same reports whether it is the release of a user's devices of that group: a user has
// one reservation of a group.
func (r *owedRelease) same(d structs.AllocatedDevice, user structs.DeviceUser) bool {
	return r.Devices.Group() == d.Group() && r.User == user
}

// more is closed when a release has been added.
func (o *owedReleases) more() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.added
}

// begin returns the oldest release of one of some groups, for a try; nil: there is none.
// Each is followed by an end.
func (o *owedReleases) begin(groups index) *owedRelease {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.list {
		if r.trying == nil && groups[r.Devices.Group()] != nil {
			r.trying = make(chan struct{})
			return r
		}
	}
	return nil
}

// end says what became of a try.
func (o *owedReleases) end(r *owedRelease, released bool) {
	o.mu.Lock()
	close(r.trying)
	r.trying = nil
	if released {
		o.remove(r)
	}
	o.mu.Unlock()
	if released {
		o.save()
	}
}

// remove drops a release. The caller holds mu.
func (o *owedReleases) remove(r *owedRelease) {
	o.list = slices.DeleteFunc(o.list, func(other *owedRelease) bool { return other == r })
	o.changes++
}

// forget drops what is owed of a user's devices that are about to be reserved for it
// again: the late release would end the new reservation. It waits for a try that goes
// on. The error is an abi.Error: UNAVAILABLE and recoverable.
func (o *owedReleases) forget(ctx context.Context, d structs.AllocatedDevice, user structs.DeviceUser) error {
	for {
		dropped, trying := o.drop(d, user)
		if dropped {
			o.save()
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
func (o *owedReleases) drop(d structs.AllocatedDevice, user structs.DeviceUser) (dropped bool, trying <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.list, func(r *owedRelease) bool { return r.same(d, user) })
	if i < 0 {
		return false, nil
	}
	if r := o.list[i]; r.trying != nil {
		return false, r.trying
	}
	o.list = slices.Delete(o.list, i, i+1)
	o.changes++
	return true, nil
}

// save makes what is owed durable: it returns when a write has had all changes until now.
// One write goes on at a time, with no lock held. What cannot be written is still tried by
// this agent.
func (o *owedReleases) save() {
	if o.store == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for wanted := o.changes; o.saved < wanted; {
		if writing := o.writing; writing != nil {
			o.mu.Unlock()
			<-writing
			o.mu.Lock()
			continue
		}
		o.write()
	}
}

// write writes what is owed now. The caller holds mu, which is not held meanwhile.
func (o *owedReleases) write() {
	s := &state.DeviceState{}
	for _, r := range o.list {
		s.Owed = append(s.Owed, r.DeviceRelease)
	}
	changes, written := o.changes, make(chan struct{})
	o.writing = written
	o.mu.Unlock()
	if err := o.store.PutDevices(s); err != nil {
		o.logger.Error("the devices that have to be released would be forgotten with this agent", "error", err)
	}
	o.mu.Lock()
	o.saved, o.writing = changes, nil
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
		r := u.m.owed.begin(groups)
		if r == nil {
			return time.Now().Add(catalog.MaxPollInterval)
		}
		err := u.sendRelease(ctx, r.Devices, r.User)
		u.m.owed.end(r, err == nil)
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

// postponeReleases says that a release has failed that was not owed yet.
func (u *plugin) postponeReleases() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.releasesDue = time.Now().Add(catalog.Backoff(catalog.RetryPause, catalog.MaxRetryPause, u.releaseFailures+1))
}
