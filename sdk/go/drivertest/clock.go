package drivertest

import (
	"sync"
	"time"
)

// Clock is a clock that stands still but for [Clock.Sleep], so that tests of what
// takes time take none. It may be used concurrently.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows some time in the year 2030.
func NewClock() *Clock {
	return &Clock{now: time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)}
}

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Sleep sets the clock forward by d and returns at once.
func (c *Clock) Sleep(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d > 0 {
		c.now = c.now.Add(d)
	}
}
