package sandbox

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// shortRun is how long a guest runs in a call before it needs a turn: nearly all calls
	// end before.
	shortRun = time.Millisecond
	// turnTime is how long a turn is when others wait for one.
	turnTime = time.Millisecond / 2
	// halfLife is how long it takes for half of what an owner has used to be forgotten.
	halfLife = time.Second
)

// turns lets few of the guests that compute for long do it at once. Go gives every goroutine
// that is ready a processor in its turn, for ten milliseconds: among sixty guests that spin,
// all else in the process would wait for half a second each time. The next turn is for the
// owner that has used least lately, so that who computes now and then does not wait for who
// always does, however many guests of it wait.
type turns struct {
	mu     sync.Mutex
	free   int
	queued []*runner // those with guests that wait, the longest first
}

// runner is the owner of guests, as the turns know it. Its fields belong to the turns.
type runner struct {
	weight  uint64          // 0: defaultWeight
	waiting []chan struct{} // closed when the turn has come
	used    float64         // in turns, lately, by weight: half of it is forgotten every halfLife
	at      time.Time       // when that was reckoned
}

// use adds to what the owner has used lately, and returns that.
func (r *runner) use(d time.Duration, now time.Time) float64 {
	share := float64(cmp.Or(r.weight, defaultWeight)) / defaultWeight
	r.used = r.used*math.Exp2(-now.Sub(r.at).Seconds()/halfLife.Seconds()) + d.Seconds()/share
	r.at = now
	return r.used
}

// defaultWeight is the weight of a [Share] that has none, and of every plugin.
const defaultWeight = 100

// Share is a share of the processor, for one guest or several together. While others want
// to compute, too, each gets time by its weight; what one does not use is the others'. It is
// safe for concurrent use.
type Share struct {
	runner runner
	used   atomic.Int64 // nanoseconds
}

// NewShare returns a share of that weight beside others; 0: defaultWeight.
func NewShare(weight uint64) *Share { return &Share{runner: runner{weight: weight}} }

// Used returns the time that its guests have run, up to their last look at the clock.
func (s *Share) Used() time.Duration { return time.Duration(s.used.Load()) }

func (s *Share) use(d time.Duration) {
	if s != nil {
		s.used.Add(int64(d))
	}
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
		t.dequeue(r, i)
	}
	t.mu.Unlock()
	if i < 0 {
		t.give(r, 0)
	}
}

// give gives a turn back that an owner used for so long, to the guest that has waited
// longest of the next owner.
func (t *turns) give(from *runner, used time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	from.use(used, now)
	if len(t.queued) == 0 {
		t.free++
		return
	}
	next := slices.MinFunc(t.queued, func(a, b *runner) int { return cmp.Compare(a.use(0, now), b.use(0, now)) })
	close(next.waiting[0])
	t.dequeue(next, 0)
}

// keep adds to what an owner has used, and reports whether the next turn is its own again:
// whether it has used less than all that wait, and none of its own guests does.
func (t *turns) keep(r *runner, used time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	least := r.use(used, now)
	return !slices.ContainsFunc(t.queued, func(q *runner) bool { return q == r || q.use(0, now) <= least })
}

// dequeue takes the i-th guest of an owner out of the queue. The lock is held.
func (t *turns) dequeue(r *runner, i int) {
	r.waiting = slices.Delete(r.waiting, i, i+1)
	if len(r.waiting) == 0 {
		t.queued = slices.DeleteFunc(t.queued, func(q *runner) bool { return q == r })
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
	g.guest.Share.use(d)
	g.ran += d
	if g.held {
		if g.turn += d; g.turn < turnTime || !g.turns.wanted() {
			return nil
		}
		kept := g.turns.keep(g.runner, g.turn)
		g.turn = 0
		if kept {
			return ctx.Err()
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
		g.turns.give(g.runner, g.turn)
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
	g.guest.Share.use(d)
	g.Pause()
	g.ran = 0
}
