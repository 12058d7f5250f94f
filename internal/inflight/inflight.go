// Package inflight counts what is under way, so that its owner can end after it.
//
// A [sync.WaitGroup] alone does not do: what begins while the owner is waiting already
// would be waited for or not, by chance. Start reading at [Group].
package inflight

import "sync"

// Group lets callers in until it is closed. The zero value is open. It is safe for
// concurrent use.
type Group struct {
	mu     sync.Mutex
	closed bool
	inside sync.WaitGroup
}

// Enter reports whether the caller is let in. If so it calls [Group.Leave] once.
func (g *Group) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.inside.Add(1)
	}
	return !g.closed
}

// Leave ends what [Group.Enter] began.
func (g *Group) Leave() { g.inside.Done() }

// Close refuses all who come later, and returns when none is inside. It is idempotent.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.inside.Wait()
}
