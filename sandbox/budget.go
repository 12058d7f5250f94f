package sandbox

import (
	"errors"
	"sync"
	"time"
)

// What a guest ends with whose budget is used up. Both may be there again later.
var (
	ErrMemoryBudget = errors.New("the budget of memory is used up")
	ErrTimeBudget   = errors.New("the budget of processor time is used up")
)

// Quota is what the instances of a [Budget] may use together; what is 0 is not bounded.
type Quota struct {
	// Memory is the size of their memories, in bytes, whether they have touched it or not.
	Memory uint64
	// Least is how much of that they get whatever others have of the budget that this one is
	// within.
	Least uint64
	// TimePerMinute is how long they may run. What is not used is saved up to that.
	TimePerMinute time.Duration
}

// Budget is what several instances share, and what of it they have used. It is safe for
// concurrent use.
type Budget struct {
	quota  Quota
	within *Budget // whose memory they use, too; nil: none
	runner runner

	mu     sync.Mutex // taken before that of within
	memory uint64
	saved  time.Duration // that they may run; below 0: they ran longer than they may
	since  time.Time     // when it was reckoned
	broke  bool          // time was used up, and not enough is saved up since
}

// NewBudget returns a budget of which nothing is used; within is nil or one that its memory
// is a part of.
func NewBudget(q Quota, within *Budget) *Budget {
	return &Budget{quota: q, within: within, saved: q.TimePerMinute, since: time.Now()}
}

// Memory returns how many bytes of memory are in use.
func (b *Budget) Memory() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.memory
}

// TakeMemory takes bytes off the budget, or reports false. Who takes gives back, by
// [Budget.GiveMemory]: what the node keeps for a guest counts as the guest's.
func (b *Budget) TakeMemory(bytes uint64) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	after := b.memory + bytes
	if b.quota.Memory > 0 && after > b.quota.Memory {
		return false
	}
	if !b.within.TakeMemory(bytes) {
		if after > b.quota.Least {
			return false
		}
		b.within.overdraw(bytes)
	}
	b.memory = after
	return true
}

// overdraw takes bytes that may not be left.
func (b *Budget) overdraw(bytes uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.memory += bytes
}

// GiveMemory gives back what was taken.
func (b *Budget) GiveMemory(bytes uint64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.memory -= bytes
	b.mu.Unlock()
	b.within.GiveMemory(bytes)
}

// recovery is which part of a minute's time has to be saved up before guests run again: less
// would have them begin and end at once.
const recovery = 30

// Wait returns for how long no guest of the budget may run; 0: they may now.
func (b *Budget) Wait() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.save()
	if !b.broke {
		return 0
	}
	return time.Duration(float64(b.quota.TimePerMinute/recovery-b.saved) * float64(time.Minute) / float64(b.quota.TimePerMinute))
}

// spend takes time off the budget, and reports whether there was any left.
func (b *Budget) spend(d time.Duration) bool {
	if b == nil || b.quota.TimePerMinute == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.save()
	b.saved -= d
	b.broke = b.broke || b.saved < 0
	return !b.broke
}

// save adds the share of the time that has passed. The lock is held.
func (b *Budget) save() {
	now := time.Now()
	passed := min(now.Sub(b.since), time.Minute)
	b.since = now
	b.saved += time.Duration(float64(passed) * float64(b.quota.TimePerMinute) / float64(time.Minute))
	b.saved = min(b.saved, b.quota.TimePerMinute)
	b.broke = b.broke && b.saved < b.quota.TimePerMinute/recovery
}
