package sandbox

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// shortRun is how long a guest runs in a call before it needs a turn: nearly all calls
	// end before.
	shortRun = time.Millisecond
	// turnTime is how long a turn is when others wait for one.
	turnTime = time.Millisecond
)

// turns lets few of the guests that compute for long do it at once. Go gives every goroutine
// that is ready a processor in its turn, for ten milliseconds: among sixty guests that spin,
// all else in the process would wait for half a second each time. Those who wait get turns
// by their owners, one each, so that an owner of sixty gets no more than an owner of one.
type turns struct {
	mu     sync.Mutex
	free   int
	queued []*runner // those with guests that wait; next is the first
}

// runner is the owner of guests, as the turns know it. Its field belongs to the turns.
type runner struct {
	waiting []chan struct{} // closed when the turn has come
}

func newTurns(n int) *turns { return &turns{free: n} }

// take waits for a turn, and reports whether it has come before the context ended.
func (t *turns) take(ctx context.Context, r *runner) bool {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return true
	}
	come := make(chan struct{})
	if len(r.waiting) == 0 {
		t.queued = append(t.queued, r)
	}
	r.waiting = append(r.waiting, come)
	t.mu.Unlock()
	select {
	case <-come:
		return true
	case <-ctx.Done():
		t.leave(r, come)
		return false
	}
}

// leave takes back a place in the queue, or gives back the turn that has come meanwhile.
func (t *turns) leave(r *runner, come chan struct{}) {
	t.mu.Lock()
	i := slices.Index(r.waiting, come)
	if i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
		if len(r.waiting) == 0 {
			t.queued = slices.DeleteFunc(t.queued, func(q *runner) bool { return q == r })
		}
	}
	t.mu.Unlock()
	if i < 0 {
		t.give()
	}
}

// give gives a turn back: to the next owner's guest that has waited longest.
func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queued) == 0 {
		t.free++
		return
	}
	r := t.queued[0]
	t.queued = t.queued[1:]
	close(r.waiting[0])
	if r.waiting = r.waiting[1:]; len(r.waiting) > 0 {
		t.queued = append(t.queued, r)
	}
}

// wanted reports whether somebody waits.
func (t *turns) wanted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queued) > 0
}

// governor is how one instance spends time: within its budget, and in turns. It implements
// [meter.Governor].
type governor struct {
	guest  *Guest
	turns  *turns
	runner *runner

	ran  time.Duration // in this call
	turn time.Duration // of which in this turn
	held bool          // it has a turn
}

// Ran implements [meter.Governor].
func (g *governor) Ran(ctx context.Context, d time.Duration) error {
	if !g.guest.Budget.spend(d) && !g.guest.Exempt {
		return ErrTimeBudget
	}
	g.ran += d
	if g.held {
		if g.turn += d; g.turn < turnTime || !g.turns.wanted() {
			return nil
		}
		g.Pause()
	}
	g.Resume(ctx)
	return ctx.Err()
}

// Pause implements [meter.Governor].
func (g *governor) Pause() {
	if g.held {
		g.held = false
		g.turns.give()
	}
}

// Resume implements [meter.Governor].
func (g *governor) Resume(ctx context.Context) {
	if !g.held && g.ran >= shortRun && g.turns.take(ctx, g.runner) {
		g.held, g.turn = true, 0
	}
}

// Left implements [meter.Governor].
func (g *governor) Left(d time.Duration) {
	g.guest.Budget.spend(d)
	g.Pause()
	g.ran = 0
}
