package host

import (
	"context"
	"errors"
	"maps"
	"slices"
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
	// Opened is how many streams were opened, by the capability that did: connections by
	// net, requests by http, commands by exec. Streams are those that are open now.
	Opened  map[string]uint64
	Streams int
	// StreamRead and StreamWritten are how many bytes were read from streams and written.
	StreamRead, StreamWritten uint64
	// Helpers is how many helpers were run, and commands in workloads, by how that ended: ended by itself, or in a
	// timeout, or failed to start.
	Helpers map[string]uint64
	// HelpersRunning is how many of them run now.
	HelpersRunning int
	// Uses are what the plugin used of its capabilities, each function and outcome that there was:
	// at most 31 functions with five outcomes each. WASI is not among them.
	Uses []CapabilityUses `json:"Uses,omitempty"`
	// KeptValues and KeptBytes are how many values the plugin keeps in the node's database, and
	// the size of these and of their keys; 0 until it has asked for one.
	KeptValues, KeptBytes int
	// NotGranted is what the plugin was refused since its grants were last changed, with the
	// configuration that would grant it: the latest, each once.
	NotGranted []string
	// WouldGrant is that configuration alone, of each of NotGranted.
	WouldGrant []string `json:"WouldGrant,omitempty"`
	// Running are the calls that have not returned for five seconds, and are ended at some time:
	// the oldest first, at most 16.
	Running []RunningCall `json:"Running,omitempty"`
	// OutOfTime and OutOfMemory are how many calls failed because the plugin had used up its
	// processor time, or could get no more memory.
	OutOfTime, OutOfMemory uint64
	// MemoryBytes is what its instances have of memory, and the snapshot that they begin as.
	MemoryBytes uint64
	// GuestTime is the time in the guest's own code, without what the host did for
	// it.
	GuestTime time.Duration
	// Took is how many calls took at most how long, what the host did for them and waits
	// included. A call is counted once, where it fits first.
	Took []CallsWithin
	// LongestGap is the longest time for which the guest could not have been
	// interrupted.
	LongestGap time.Duration
	// Instances is how many were made, Copies how many of them were copied from a
	// snapshot of the first.
	Instances, Copies uint64
	// AtRest is the number of idle instances, AtWork of those in a call.
	AtRest, AtWork int
}

// CallsWithin is a number of calls that took at most so long; of the last of them, Within is zero,
// and they took longer than the others.
type CallsWithin struct {
	Within time.Duration
	Calls  uint64
}

// callBounds are what the times of calls are told apart by: from a call into a guest that does
// nothing to one that waits.
var callBounds = [...]time.Duration{100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second}

// counters are what Stats is made of.
type counters struct {
	mu   sync.Mutex
	s    Stats
	took [len(callBounds) + 1]uint64
}

// Stats returns what the plugin did so far.
func (p *Plugin) Stats() Stats {
	p.counters.mu.Lock()
	s := p.counters.s
	s.Faults = map[FaultKind]uint64{}
	for kind, n := range p.counters.s.Faults {
		s.Faults[kind] = n
	}
	s.Opened, s.Helpers = maps.Clone(p.counters.s.Opened), maps.Clone(p.counters.s.Helpers)
	s.NotGranted, s.WouldGrant = slices.Clone(p.counters.s.NotGranted), slices.Clone(p.counters.s.WouldGrant)
	s.Took = callsWithin(p.counters.took)
	p.counters.mu.Unlock()
	s.Streams, s.StreamRead, s.StreamWritten = p.streams.Open(), p.streams.Read(), p.streams.Written()
	s.Uses, s.HelpersRunning = p.uses.list(), len(p.helpers.running)
	s.KeptValues, s.KeptBytes = p.host.kept(p.storeName())
	s.AtRest, s.AtWork = p.pool.count()
	s.MemoryBytes = p.budget.Memory()
	s.Running = p.running.long(time.Now())
	return s
}

// made counts an instance.
func (c *counters) made(copied bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.Instances++
	if copied {
		c.s.Copies++
	}
}

// callsWithin names the bounds of counts.
func callsWithin(counts [len(callBounds) + 1]uint64) []CallsWithin {
	all := make([]CallsWithin, len(counts))
	for i, n := range counts {
		all[i].Calls = n
		if i < len(callBounds) {
			all[i].Within = callBounds[i]
		}
	}
	return all
}

// called counts a call that took so long, of which the time in the guest.
func (c *counters) called(took, guestTime, gap time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.Calls++
	within, _ := slices.BinarySearch(callBounds[:], took)
	c.took[within]++
	c.s.GuestTime += guestTime
	c.s.LongestGap = max(c.s.LongestGap, gap)
	var fault *FaultError
	if errors.As(err, &fault) {
		if c.s.Faults == nil {
			c.s.Faults = map[FaultKind]uint64{}
		}
		c.s.Faults[fault.Kind]++
	}
}

// opened counts a stream that a capability opened.
func (c *counters) opened(module string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.s.Opened == nil {
		c.s.Opened = map[string]uint64{}
	}
	c.s.Opened[module]++
}

// HelperOutcomes are how helpers end, as [Stats] has them.
var HelperOutcomes = [...]string{"ended", "timeout", "failed"}

// helped counts a helper.
func (c *counters) helped(err error) {
	outcome := "ended"
	switch {
	case abi.CodeOf(err) == abi.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded):
		outcome = "timeout"
	case err != nil:
		outcome = "failed"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.s.Helpers == nil {
		c.s.Helpers = map[string]uint64{}
	}
	c.s.Helpers[outcome]++
}

// refused counts a call that a budget ended.
func (c *counters) refused(count func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	count(&c.s)
}

// mostNotGranted bounds what is listed in [Stats.NotGranted].
const mostNotGranted = 8

// answered counts what a capability answered.
func (c *counters) answered(code abi.Code, err error) {
	if code != abi.PermissionDenied {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.Denied++
	var refused *notGrantedError
	if errors.As(err, &refused) && !slices.Contains(c.s.NotGranted, refused.Error()) {
		c.s.NotGranted, c.s.WouldGrant = append(c.s.NotGranted, refused.Error()), append(c.s.WouldGrant, refused.fix)
		over := max(0, len(c.s.NotGranted)-mostNotGranted)
		c.s.NotGranted, c.s.WouldGrant = c.s.NotGranted[over:], c.s.WouldGrant[over:]
	}
}

// granted forgets what was refused under other grants.
func (c *counters) granted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.NotGranted, c.s.WouldGrant = nil, nil
}

// count returns how many instances are idle and how many are in calls.
func (p *pool) count() (idle, busy int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle), len(p.slots) + len(p.waits) + len(p.commands)
}
