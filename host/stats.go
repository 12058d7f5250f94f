package host

import (
	"errors"
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/abi"
)

// Stats is what a plugin did since it was loaded.
type Stats struct {
	// Calls that entered the guest and returned, faults included.
	Calls uint64
	// Faults, by kind.
	Faults map[FaultKind]uint64
	// Denied is how often a capability answered PERMISSION_DENIED.
	Denied uint64
	// GuestTime is the time in the guest's own code, without what the host did for
	// it.
	GuestTime time.Duration
	// LongestGap is the longest time for which the guest could not have been
	// interrupted.
	LongestGap time.Duration
	// Instances is how many were made, Copies how many of them began as copies of
	// the first.
	Instances, Copies uint64
	// AtRest is the number of instances that wait for a call, AtWork of those in one.
	AtRest, AtWork int
}

// tally is what Stats is made of.
type tally struct {
	mu sync.Mutex
	s  Stats
}

// Stats returns what the plugin did so far.
func (p *Plugin) Stats() Stats {
	p.tally.mu.Lock()
	s := p.tally.s
	s.Faults = map[FaultKind]uint64{}
	for kind, n := range p.tally.s.Faults {
		s.Faults[kind] = n
	}
	p.tally.mu.Unlock()
	s.AtRest, s.AtWork = p.pool.count()
	return s
}

// made counts an instance.
func (t *tally) made(copied bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.s.Instances++
	if copied {
		t.s.Copies++
	}
}

// called counts a call.
func (t *tally) called(guestTime, gap time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.s.Calls++
	t.s.GuestTime += guestTime
	t.s.LongestGap = max(t.s.LongestGap, gap)
	var fault *FaultError
	if errors.As(err, &fault) {
		if t.s.Faults == nil {
			t.s.Faults = map[FaultKind]uint64{}
		}
		t.s.Faults[fault.Kind]++
	}
}

// answered counts what a capability answered.
func (t *tally) answered(code abi.Code) {
	if code != abi.PermissionDenied {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.s.Denied++
}

// count returns how many instances are at rest and at work.
func (p *pool) count() (rest, work int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle), len(p.slots) + len(p.waits)
}
