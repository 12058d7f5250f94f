// Package slots lets a few pieces of work go on at once, those first that somebody waits for.
package slots

import (
	"context"
	"slices"
	"sync"
)

// Slots are places for pieces of work. They are safe for concurrent use.
type Slots struct {
	mu      sync.Mutex
	free    int
	waiting []*Ticket // the longest first
}

// New returns n slots; there is at least one.
func New(n int) *Slots { return &Slots{free: max(1, n)} }

// Ticket is a piece of work that has a slot or waits for one.
type Ticket struct {
	slots  *Slots
	wanted func() bool   // nil: nobody waits for it
	come   chan struct{} // closed when it has a slot
}

// Join queues a piece of work. Wanted reports, whenever a slot is given to the next, whether
// somebody waits for it; it must not block. Nil: nobody does. Whoever joins waits.
func (s *Slots) Join(wanted func() bool) *Ticket {
	t := &Ticket{s, wanted, make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, t)
	s.give()
	return t
}

// give gives free slots to those that are wanted, or else have waited longest. The caller
// holds mu.
func (s *Slots) give() {
	for s.free > 0 && len(s.waiting) > 0 {
		i := max(0, slices.IndexFunc(s.waiting, func(t *Ticket) bool { return t.wanted != nil && t.wanted() }))
		close(s.waiting[i].come)
		s.waiting = slices.Delete(s.waiting, i, i+1)
		s.free--
	}
}

// Wait returns when the work has its slot, which it gives back with [Ticket.Leave], or, without
// one, the context's error. It is called once.
func (t *Ticket) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		t.withdraw()
		return err
	}
	select {
	case <-t.come:
		return nil
	case <-ctx.Done():
		t.withdraw()
		return ctx.Err()
	}
}

// withdraw gives up a place in the queue, or the slot that has come.
func (t *Ticket) withdraw() {
	t.slots.mu.Lock()
	i := slices.Index(t.slots.waiting, t)
	if i >= 0 {
		t.slots.waiting = slices.Delete(t.slots.waiting, i, i+1)
	}
	t.slots.mu.Unlock()
	if i < 0 {
		t.Leave()
	}
}

// Leave gives the slot to the next.
func (t *Ticket) Leave() {
	t.slots.mu.Lock()
	defer t.slots.mu.Unlock()
	t.slots.free++
	t.slots.give()
}
