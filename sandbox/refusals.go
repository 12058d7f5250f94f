package sandbox

import (
	"fmt"
	"maps"
	"sync"
	"time"
)

const (
	// refusedFor is how long a module that was too costly is refused untried: a task that
	// is started again and again costs a compile now and then, and a machine that was
	// short of memory gets another chance.
	refusedFor = 10 * time.Minute
	// maxRefused bounds how many are remembered.
	maxRefused = 256
)

// refusals remembers the modules that were too costly to compile. The zero value is ready;
// it is safe for concurrent use.
type refusals struct {
	mu sync.Mutex
	by map[string]refused
}

type refused struct {
	err   error
	until time.Time
}

// add remembers why a module was refused.
func (r *refusals) add(digest string, err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.by, func(_ string, was refused) bool { return !now.Before(was.until) })
	if r.by == nil || len(r.by) >= maxRefused {
		r.by = map[string]refused{}
	}
	r.by[digest] = refused{err, now.Add(refusedFor)}
}

// of returns why a module is refused untried, or nil.
func (r *refusals) of(digest string, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, ok := r.by[digest]
	if !ok || !now.Before(was.until) {
		return nil
	}
	return fmt.Errorf("%w; it is tried again in %v", was.err, was.until.Sub(now).Round(time.Second))
}
