// Package owed keeps what plugins have to be asked for and could not be: it is asked for until it
// has been done, by the next agent if need be. It knows neither what it is nor which plugin
// does it.
//
// Start reading at [List].
package owed

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/managers/catalog"
)

// Max bounds what waits for plugins to work again. Beyond it, the oldest is dropped of who owes most:
// one that always fails does not have what others owe forgotten.
const Max = 1024

// Config configures a [List].
type Config[T any] struct {
	// What is owed, in the plural, for the log.
	What string
	// Same reports whether two are the same, which is owed once.
	Same func(a, b T) bool
	// Of says who owes something.
	Of func(T) string
	// Left is what an earlier agent left, the oldest first.
	Left []T
	// Put makes what is owed durable; nil: it is forgotten with the agent.
	Put    func([]T) error
	Logger hclog.Logger
}

// List is what is owed. Its methods may be called concurrently.
type List[T any] struct {
	cfg Config[T]

	mu      sync.Mutex
	list    []*item[T]    // the oldest first
	added   chan struct{} // closed and replaced whenever one is added
	changes uint64        // of list
	saved   uint64        // changes that the last write had
	writing chan struct{} // closed when the write that goes on has ended; nil: none does
}

type item[T any] struct {
	what   T
	trying chan struct{} // closed when the try that goes on has ended; nil: none goes on
}

// New returns a list of what an earlier agent left.
func New[T any](cfg Config[T]) *List[T] {
	l := &List[T]{cfg: cfg, added: make(chan struct{})}
	for _, what := range cfg.Left {
		l.list = append(l.list, &item[T]{what: what})
	}
	return l
}

// Add owes something, durably, unless it is owed already.
func (l *List[T]) Add(what T) {
	l.mu.Lock()
	if l.find(what) < 0 {
		l.list = append(l.list, &item[T]{what: what})
	}
	dropped := ""
	for len(l.list) > Max {
		dropped = l.shorten()
	}
	l.changes++
	close(l.added)
	l.added = make(chan struct{})
	l.mu.Unlock()
	if dropped != "" {
		l.cfg.Logger.Warn("too many "+l.cfg.What+" fail; the oldest are dropped", "limit", Max, "of", dropped)
	}
	l.save()
}

// shorten drops the oldest of who owes most, and returns who that is. The lock is held.
func (l *List[T]) shorten() (of string) {
	count, most := map[string]int{}, 0
	for _, i := range l.list {
		count[l.cfg.Of(i.what)]++
		most = max(most, count[l.cfg.Of(i.what)])
	}
	i := slices.IndexFunc(l.list, func(i *item[T]) bool { return count[l.cfg.Of(i.what)] == most })
	of = l.cfg.Of(l.list[i].what)
	l.list = slices.Delete(l.list, i, i+1)
	return of
}

// find returns the place of what is owed, below 0: it is not. The lock is held.
func (l *List[T]) find(what T) int {
	return slices.IndexFunc(l.list, func(i *item[T]) bool { return l.cfg.Same(i.what, what) })
}

// More is closed when something has been added.
func (l *List[T]) More() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.added
}

// Forget drops something that would do harm from now on. It waits for a try that goes on, and
// returns the context's error when that ends before.
func (l *List[T]) Forget(ctx context.Context, what T) error {
	for {
		dropped, trying := l.drop(what)
		if dropped {
			l.save()
		}
		if trying == nil {
			return nil
		}
		select {
		case <-trying:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drop removes something, or returns what is closed when a try of it that goes on has ended.
func (l *List[T]) drop(what T) (dropped bool, trying <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := l.find(what)
	if i < 0 {
		return false, nil
	}
	if t := l.list[i].trying; t != nil {
		return false, t
	}
	l.list = slices.Delete(l.list, i, i+1)
	l.changes++
	return true, nil
}

// Pace is how often a plugin is asked for what it could not do. The zero value is ready.
type Pace struct {
	mu       sync.Mutex
	due      time.Time
	failures int // in a row
}

// Postpone notes that something has failed that was not owed yet.
func (p *Pace) Postpone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = time.Now().Add(catalog.Backoff(catalog.RetryPause, catalog.MaxRetryPause, p.failures+1))
}

func (p *Pace) ended(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.failures = 0
		return
	}
	p.failures++
	p.due = time.Now().Add(catalog.Backoff(catalog.RetryPause, catalog.MaxRetryPause, p.failures))
}

func (p *Pace) next() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.due
}

// Settle does what is owed of one plugin, when it is due, up to the first that fails, and
// returns when to come again. Its says which that is, and does not block.
func (l *List[T]) Settle(p *Pace, its func(T) bool, do func(T) error) time.Time {
	for {
		if due := p.next(); time.Now().Before(due) {
			return due
		}
		i := l.begin(its)
		if i == nil {
			return time.Now().Add(catalog.MaxPollInterval)
		}
		err := do(i.what)
		l.end(i, err == nil)
		p.ended(err)
	}
}

// begin returns the oldest for a try; nil: there is none. Each is followed by an end.
func (l *List[T]) begin(its func(T) bool) *item[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, i := range l.list {
		if i.trying == nil && its(i.what) {
			i.trying = make(chan struct{})
			return i
		}
	}
	return nil
}

// end records the outcome of a try.
func (l *List[T]) end(i *item[T], done bool) {
	l.mu.Lock()
	close(i.trying)
	i.trying = nil
	if done {
		l.list = slices.DeleteFunc(l.list, func(other *item[T]) bool { return other == i })
		l.changes++
	}
	l.mu.Unlock()
	if done {
		l.save()
	}
}

// save makes what is owed durable: it returns when a write has had all changes until now.
// One write goes on at a time, with no lock held. What cannot be written is still tried by
// this agent.
func (l *List[T]) save() {
	if l.cfg.Put == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for wanted := l.changes; l.saved < wanted; {
		if writing := l.writing; writing != nil {
			l.mu.Unlock()
			<-writing
			l.mu.Lock()
			continue
		}
		l.write()
	}
}

// write writes what is owed now. The caller holds mu, which is not held meanwhile.
func (l *List[T]) write() {
	var now []T
	for _, i := range l.list {
		now = append(now, i.what)
	}
	changes, written := l.changes, make(chan struct{})
	l.writing = written
	l.mu.Unlock()
	if err := l.cfg.Put(now); err != nil {
		l.cfg.Logger.Error("the "+l.cfg.What+" that are to be done would be forgotten with this agent", "error", err)
	}
	l.mu.Lock()
	l.saved, l.writing = changes, nil
	close(written)
}
