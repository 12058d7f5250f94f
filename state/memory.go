package state

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/wasmnode/wasmnode/internal/boltfile"
)

// NewMem returns a store that lasts as long as the process: for `agent -dev` and
// tests. It keeps everything that a file would, encoded alike, so that what is read
// is never shared with what was written.
func NewMem() DB {
	return &records{name: "memory", medium: &memory{}}
}

// memory is the medium in nested maps.
type memory struct {
	mu     sync.RWMutex
	root   folder
	closed bool
}

// folder is a bucket. The zero value is an empty one.
type folder struct {
	values  map[string][]byte
	folders map[string]*folder
}

// find is the folder at a path; nil: there is none.
func (f *folder) find(path []string) *folder {
	for _, name := range path {
		if f = f.folders[name]; f == nil {
			return nil
		}
	}
	return f
}

// put stores a value, and makes the folders on the way.
func (f *folder) put(path []string, key string, value []byte) {
	for _, name := range path {
		next := f.folders[name]
		if next == nil {
			next = &folder{}
			if f.folders == nil {
				f.folders = map[string]*folder{}
			}
			f.folders[name] = next
		}
		f = next
	}
	if f.values == nil {
		f.values = map[string][]byte{}
	}
	f.values[key] = value
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
		switch {
		case op.Key == "":
			last := len(op.Bucket) - 1
			if parent := m.root.find(op.Bucket[:last]); parent != nil {
				delete(parent.folders, op.Bucket[last])
			}
		case op.Value == nil:
			if f := m.root.find(op.Bucket); f != nil {
				delete(f.values, op.Key)
			}
		default:
			m.root.put(op.Bucket, op.Key, op.Value)
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
	if f := m.root.find(bucket); f != nil {
		return found(f.values[key])
	}
	return found(nil)
}

func (m *memory) buckets(bucket []string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.open(); err != nil {
		return nil, err
	}
	f := m.root.find(bucket)
	if f == nil {
		return nil, nil
	}
	return slices.Sorted(maps.Keys(f.folders)), nil
}

func (m *memory) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.root = true, folder{}
	return nil
}
