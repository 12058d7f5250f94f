package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
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
	return replace(t.path, value+"\n")
}

// Token is the one by which servers know the node; empty: they know it by its secret ID.
func (cp *ControlPlane) Token() string { return cp.token.get() }

// Renew has the next heartbeat ask for another token.
func (cp *ControlPlane) Renew() { cp.renew.Store(true) }

// replace makes a file's content another, or leaves it as it was.
func replace(path, content string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}
