package state

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/wasmnode/wasmnode/state/boltfile"
)

// NewMem returns a store that lives as long as the process: for `agent -dev` and
// tests. It keeps everything that a file would, encoded alike, so that what is read
// is never shared with what was written.
func NewMem() DB {
	return &records{name: "memory", medium: &memory{values: map[string][]byte{}}}
}

// memory is the medium in a map. Keys are the bucket path and the key, joined by
// separators, which no ID or task name holds.
type memory struct {
	mu     sync.RWMutex
	values map[string][]byte
	closed bool
}

const separator = "\x00"

func memoryPrefix(bucket []string) string {
	return strings.Join(bucket, separator) + separator
}

func (m *memory) open() error {
	if m.closed {
		return fmt.Errorf("memory: %w", boltfile.ErrClosed)
	}
	return nil
}

func (m *memory) write(ops ...boltfile.Op) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.open(); err != nil {
		return err
	}
	for _, op := range ops {
		prefix := memoryPrefix(op.Bucket)
		switch {
		case op.Key == "":
			for k := range m.values {
				if strings.HasPrefix(k, prefix) {
					delete(m.values, k)
				}
			}
		case op.Value == nil:
			delete(m.values, prefix+op.Key)
		default:
			m.values[prefix+op.Key] = op.Value
		}
	}
	return nil
}

func (m *memory) read(bucket []string, key string, found func([]byte) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.open(); err != nil {
		return err
	}
	return found(m.values[memoryPrefix(bucket)+key])
}

func (m *memory) buckets(bucket []string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.open(); err != nil {
		return nil, err
	}
	prefix := memoryPrefix(bucket)
	var names []string
	for k := range m.values {
		if rest, ok := strings.CutPrefix(k, prefix); ok {
			if name, _, nested := strings.Cut(rest, separator); nested {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (m *memory) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.values = nil
	return nil
}
