package state

import (
	"fmt"
	"sync"

	"github.com/wasmnode/wasmnode/internal/boltfile"
)

// NewNoop returns a store that keeps nothing: reads find nothing, writes succeed.
func NewNoop() DB {
	return &records{name: "no-op", medium: &noop{}}
}

// noop is the medium that keeps nothing.
type noop struct {
	mu     sync.Mutex
	closed bool
}

func (n *noop) open() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return fmt.Errorf("no-op: %w", boltfile.ErrClosed)
	}
	return nil
}

func (n *noop) write(...boltfile.Op) error { return n.open() }

func (n *noop) read(_ []string, _ string, found func([]byte) error) error {
	if err := n.open(); err != nil {
		return err
	}
	return found(nil)
}

func (n *noop) buckets([]string) ([]string, error) { return nil, n.open() }

func (n *noop) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	return nil
}
