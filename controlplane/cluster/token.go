package cluster

import (
	"fmt"
	"os"
	"sync"

	"github.com/wasmnode/wasmnode/internal/durable"
)

// maxToken bounds a token that a server hands out; a longer one is not taken.
const maxToken = 16 << 10

// token is the one by which servers know the node, as it is kept in a file.
type token struct {
	path string

	mu    sync.Mutex
	value string
}

func readToken(path string) (*token, error) {
	t := &token{path: path}
	if path == "" {
		return t, nil
	}
	var err error
	if t.value, err = contentOf(path); err != nil {
		return nil, fmt.Errorf("the node's token: %w", err)
	}
	return t, nil
}

func (t *token) get() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.value
}

// set keeps another token, or none, durably.
func (t *token) set(value string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if value == t.value || len(value) > maxToken {
		return nil
	}
	t.value = value
	if t.path == "" {
		return nil
	}
	if value == "" {
		return os.Remove(t.path)
	}
	return durable.Replace(t.path, []byte(value+"\n"), 0o600)
}

// Token is the one by which servers know the node; empty: they know it by its secret ID.
func (cp *ControlPlane) Token() string { return cp.token.get() }

// Renew has the next heartbeat ask for another token.
func (cp *ControlPlane) Renew() { cp.renew.Store(true) }
