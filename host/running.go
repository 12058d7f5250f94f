package host

import (
	"slices"
	"sync"
	"time"
)

// The bounds of what is told of calls that are under way.
const (
	runningAfter = 5 * time.Second // for how long they are not told
	maxRunning   = 16
)

// RunningCall is a call of a plugin that has not returned yet.
type RunningCall struct {
	Operation string
	AllocID   string `json:"AllocID,omitempty"`
	Task      string `json:"Task,omitempty"`
	Began     time.Time
	// Ends is when it is ended unless it has returned.
	Ends time.Time
}

// runningCalls are the calls under way that are ended at some time. It may be used concurrently.
type runningCalls struct {
	mu    sync.Mutex
	calls map[*RunningCall]struct{}
}

// begin notes a call, until the function is called that it returns.
func (r *runningCalls) begin(c *RunningCall) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[*RunningCall]struct{}{}
	}
	r.calls[c] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.calls, c)
	}
}

// long are those that have been under way for five seconds, the oldest first, at most 16.
func (r *runningCalls) long(now time.Time) []RunningCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	var long []RunningCall
	for c := range r.calls {
		if now.Sub(c.Began) >= runningAfter {
			long = append(long, *c)
		}
	}
	slices.SortFunc(long, func(a, b RunningCall) int { return a.Began.Compare(b.Began) })
	return long[:min(len(long), maxRunning)]
}
